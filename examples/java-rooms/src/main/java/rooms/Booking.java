package rooms;

/** Who has a room; the id of the request makes a repeated one the same booking. */
record Booking(int number, long requestId, String guest) {
}
