"""``turnbuckle model``: the papers' models on numbers, tables and recordings of your own."""

from __future__ import annotations

from cyclopts import App

from turnbuckle.cli.model_bound import bound
from turnbuckle.cli.model_cxl import chain, cxl
from turnbuckle.cli.model_dag import dag
from turnbuckle.cli.model_dgemm import dgemm
from turnbuckle.cli.model_fabric import fabric
from turnbuckle.cli.model_link import link
from turnbuckle.cli.model_mdm import mdm
from turnbuckle.cli.model_memory import memory
from turnbuckle.cli.model_messages import messages
from turnbuckle.cli.model_network import network
from turnbuckle.cli.model_node import additive, functions, integration
from turnbuckle.cli.model_order import order
from turnbuckle.cli.model_patterns import patterns
from turnbuckle.cli.model_power import power
from turnbuckle.cli.model_sharing import sharing
from turnbuckle.cli.model_ssi import ssi

models_app = App(name="model")
models_app.command(bound)
models_app.command(chain)
models_app.command(cxl)
models_app.command(link)
models_app.command(functions)
models_app.command(additive)
models_app.command(integration)
models_app.command(messages)
models_app.command(patterns)
models_app.command(fabric)
models_app.command(network)
models_app.command(sharing)
models_app.command(ssi)
models_app.command(order)
models_app.command(memory)
models_app.command(mdm)
models_app.command(dgemm)
models_app.command(power)
models_app.command(dag)
