"""What the hotel should answer."""

from pathlib import Path

from upheaval import Model, load_schema

SCHEMA = load_schema(Path(__file__).parents[1] / "protocol.xml")


class Hotel(Model):
    """All rooms: bookings are numbered across them."""

    def __init__(self):
        self.taken = {}  # by room: number of the booking, id of the request, guest
        self.bookings = 0

    def apply(self, request):
        message = SCHEMA.decode(request.payload)
        if "room" in message:
            return self.book(message.requestId, message.room, message.guest)
        if "booking" in message:
            return self.leave(message.requestId, message.booking)
        rooms = [{"room": room, "guest": guest} for room, (_, _, guest) in sorted(self.taken.items())]
        return SCHEMA.Guests(requestId=message.requestId, rooms=rooms)

    def book(self, request_id, room, guest):
        if room not in self.taken:
            self.bookings += 1
            self.taken[room] = (self.bookings, request_id, guest)
        booking, by, _ = self.taken[room]
        if by != request_id:
            return SCHEMA.Refused(requestId=request_id, reason="OCCUPIED")
        return SCHEMA.Booked(requestId=request_id, booking=booking)

    def leave(self, request_id, booking):
        for room, (number, _, _) in self.taken.items():
            if number == booking:
                del self.taken[room]
                return SCHEMA.Left(requestId=request_id, room=room)
        return SCHEMA.Refused(requestId=request_id, reason="UNKNOWN_BOOKING")
