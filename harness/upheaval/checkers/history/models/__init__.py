"""Sequential models: what one copy of a system would answer. One file has one kind of data, `table` names them all."""
