"""The JSON of every ``--json`` option, documented in ``docs/result-schema.md``: one module for each kind of result.

Each module turns a result into the fields of its JSON object, and `json_text.format_object` turns fields into text.
"""
