package upheaval;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

/**
 * Frames of one connection of the bridge, both ways: little-endian int32 length of the rest, one byte kind, body. Never
 * blocks: what the socket does not take waits in a buffer that grows.
 */
final class Frames {
    private static final int HEADER_LENGTH = Integer.BYTES + 1;
    private static final int INITIAL_LENGTH = 64 * 1024;
    private static final int MAX_FRAME_LENGTH = 4 * 1024 * 1024;

    private final SocketChannel socket;
    /** Up to its position, what has come. */
    private ByteBuffer in = allocate(INITIAL_LENGTH);
    /** How much of it is taken. */
    private int taken;
    /** From 0 to its position, what has still to be sent. */
    private ByteBuffer out = allocate(INITIAL_LENGTH);

    Frames(final SocketChannel socket) {
        this.socket = socket;
    }

    /** Read what has come; gives the number of bytes, -1 at the end of the connection. */
    int receive() throws IOException {
        if (taken > 0) {
            in.flip().position(taken);
            in.compact();
            taken = 0;
        }
        return in.hasRemaining() ? socket.read(in) : 0;
    }

    /** The next whole frame, its kind first, or null. It stays the next one until {@link #take}. */
    byte[] peek() throws IOException {
        final int come = in.position() - taken;
        if (come < HEADER_LENGTH) {
            return null;
        }
        final int length = in.getInt(taken);
        if (length < 1 || length > MAX_FRAME_LENGTH) {
            throw new IOException("frame of " + length + " bytes, limit is " + MAX_FRAME_LENGTH);
        }
        if (come < Integer.BYTES + length) {
            in = withRoom(in, Integer.BYTES + length - come);
            return null;
        }
        final byte[] frame = new byte[length];
        in.get(taken + Integer.BYTES, frame);
        return frame;
    }

    /** Be done with the frame that {@link #peek} gave. */
    void take() {
        taken += Integer.BYTES + in.getInt(taken);
    }

    /** Begin a frame with a body of that length, which is to be put into the buffer. */
    ByteBuffer begin(final char kind, final int bodyLength) {
        out = withRoom(out, HEADER_LENGTH + bodyLength);
        return out.putInt(bodyLength + 1).put((byte)kind);
    }

    void text(final char kind, final String text) {
        final byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        begin(kind, bytes.length).put(bytes);
    }

    /** How many bytes wait to be sent. */
    int waiting() {
        return out.position();
    }

    /** Send what the socket takes now; gives the number of bytes. */
    int send() throws IOException {
        if (out.position() == 0) {
            return 0;
        }
        out.flip();
        final int sent = socket.write(out);
        out.compact();
        return sent;
    }

    private static ByteBuffer withRoom(final ByteBuffer buffer, final int length) {
        if (buffer.remaining() >= length) {
            return buffer;
        }
        final ByteBuffer larger = allocate(Math.max(2 * buffer.capacity(), buffer.position() + length));
        return larger.put(buffer.flip());
    }

    private static ByteBuffer allocate(final int length) {
        return ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
    }
}
