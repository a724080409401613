"""Any module that exports as a row of layers."""
