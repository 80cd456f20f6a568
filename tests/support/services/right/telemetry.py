"""Telemetry: running means of sensors, and a table of some megabytes that goes into the snapshot in pieces.

Sums are added in the order of the log. The table is bytes as the machine has its floats.
"""

import json
import math
from array import array

from asking import work_of_two

from upheaval import ClusteredService

CELLS = 3 << 17
"""Of 8 bytes: 3 MiB."""
TOUCHED = 50
PIECE = 32 << 10


class Telemetry(ClusteredService):
    def __init__(self):
        self.sensors = {}  # name: [count, mean, sum of squares, id of the last request]
        self.table = array("d", bytes(8 * CELLS))

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is None:
            return
        self.sensors = json.loads(snapshot_image.read())
        table = array("d")
        while (piece := snapshot_image.read()) is not None:
            table.frombytes(piece)
        self.table = table

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.sensors, sort_keys=True).encode())
        length = min(PIECE, publication.max_message_length) // 8 * 8
        table = memoryview(self.table).cast("B")
        for begin in range(0, len(table), length):
            publication.offer(table[begin : begin + length])

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        sensor = self.sensors.setdefault(request["sensor"], [0, 0.0, 0.0, ""])
        if request["do"] == "measure" and sensor[3] != request["id"]:
            self.measure(sensor, request)
        deviation = math.sqrt(sensor[2] / sensor[0]) if sensor[0] else None
        around = math.fsum(self.table[cell] for cell in cells(request["sensor"]))
        answer = {"id": request["id"], "mean": sensor[1], "deviation": deviation, "around": around}
        session.respond(json.dumps(answer).encode())

    def measure(self, sensor, request):
        value = request["value"]
        off = value - sensor[1]
        sensor[0] += 1
        sensor[1] += off / sensor[0]
        sensor[2] += off * (value - sensor[1])
        sensor[3] = request["id"]
        for number, cell in enumerate(cells(request["sensor"]), 1):
            self.table[cell] = 0.9 * self.table[cell] + value / number


def cells(sensor):
    begin = int.from_bytes(sensor.encode()) * 2_654_435_761
    return [(begin + number * 40_503) % CELLS for number in range(TOUCHED)]


def draw(random):
    do = random.choice(["measure", "measure", "measure", "read"])
    value = random.choice([0.1, -0.0, 1e300, random.random()])
    return {"do": do, "sensor": f"s{random.randint(1, 12)}", "value": value}


work = work_of_two(draw)
