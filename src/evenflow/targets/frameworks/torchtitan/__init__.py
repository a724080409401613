"""torchtitan: configurations written, read and edited; TOML up to 0.2, Python from 0.3 on."""
