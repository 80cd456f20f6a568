"""Sequential models: the answers of a single copy of a system. Each file has one data type; `table` names them all."""
