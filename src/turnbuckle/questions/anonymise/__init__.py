"""A recording that can be handed on."""
