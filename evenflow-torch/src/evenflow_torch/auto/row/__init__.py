"""Turns any module that exports into a row of layers, cut where one tensor crosses.

Read `exported_row` first: it exports the forward (`exported`), finds the places to cut (`crossings`), groups the pieces
between them into layers (`layer_groups`, `even_layers`) and makes each a module (`segments`). `layer_kinds` tells which
layers of a row are equal.
"""
