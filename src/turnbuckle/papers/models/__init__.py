"""The papers' single models, one folder each: `turnbuckle model NAME`."""
