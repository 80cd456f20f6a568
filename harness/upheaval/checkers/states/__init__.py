"""The promises about states: snapshots, replays and backups."""
