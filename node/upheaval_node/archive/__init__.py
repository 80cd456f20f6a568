"""The archive: records streams of frames into segment files, replays them and copies them between members."""
