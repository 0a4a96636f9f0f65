"""Spack: put this folder as packages/py_turnbuckle into a repository of yours
(packaging/README.md).
"""

import os

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyTurnbuckle(PythonPackage):
    """What a recorded GPU run would do if CPU and GPU stood closer or farther apart."""

    # nothing is published: `make sdist` makes this file, or a colleague hands it on; `spack install
    # --no-checksum`
    manual_download = True
    url = f"file://{os.getcwd()}/turnbuckle-0.2.0.tar.gz"

    license("Apache-2.0")

    version("0.2.0")

    variant("scipy", default=True, description="points of sweep --sample, matrices of model dag, rank correlations of validate")

    # the crates lie in the source package, so that nothing is fetched
    depends_on("c", type="build")
    depends_on("rust@1.89:", type="build")
    depends_on("py-maturin@1.16:1", type="build")

    with default_args(type=("build", "run")):
        depends_on("python@3.11:")
        depends_on("py-numpy@2.0:2")
        depends_on("py-polars@2.1:2")
        depends_on("py-cyclopts@4.0:5")
        depends_on("py-rich@14.0:15")
        depends_on("py-jinja2@3.1:3")
        depends_on("py-scipy@1.13:1", when="+scipy")

    import_modules = ["turnbuckle", "turnbuckle.cli"]
