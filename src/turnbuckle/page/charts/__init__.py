"""Charts that the report draws: of an answer, of the recording, of what to offload."""
