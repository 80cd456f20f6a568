"""The client of a cluster: a session that follows the leader, typed operations, and drivers with blocking and asyncio
calls.
"""
