"""Turns any module that exports into a row of layers, cut where one tensor crosses.

Read `exported_row` first: it exports the forward (`exported`), finds the places to cut (`crossings`), groups the pieces
between them into layers (`layer_groups`, `even_layers`) and makes each a module (`segments`). `traced` makes the row
that trains: parts that run as they were traced (`traced_part`, `inner_calls`).
"""
