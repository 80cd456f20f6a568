"""What an operator asks of one node: the commands, arguments, exit codes and texts of Aeron's ClusterTool.

`python -m upheaval_node.tool CLUSTER_DIR COMMAND`. The commands know a node only as `node.Node`.
"""
