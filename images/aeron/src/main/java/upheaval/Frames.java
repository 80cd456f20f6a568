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
    /** From 0 to its position, what has come and is not taken yet. */
    private ByteBuffer in = allocate(INITIAL_LENGTH);
    /** From 0 to its position, what has still to be sent. */
    private ByteBuffer out = allocate(INITIAL_LENGTH);

    Frames(final SocketChannel socket) {
        this.socket = socket;
    }

    /** Read what has come; gives the number of bytes, -1 at the end of the connection. */
    int receive() throws IOException {
        if (!in.hasRemaining()) {
            return 0;
        }
        return socket.read(in);
    }

    /** The next whole frame, its kind first, or null. It stays the next one until {@link #take}. */
    byte[] peek() throws IOException {
        if (in.position() < HEADER_LENGTH) {
            return null;
        }
        final int length = in.getInt(0);
        if (length < 1 || length > MAX_FRAME_LENGTH) {
            throw new IOException("frame of " + length + " bytes, limit is " + MAX_FRAME_LENGTH);
        }
        if (in.position() < Integer.BYTES + length) {
            in = withRoom(in, Integer.BYTES + length - in.position());
            return null;
        }
        final byte[] frame = new byte[length];
        in.get(Integer.BYTES, frame);
        return frame;
    }

    /** Be done with the frame that {@link #peek} gave. */
    void take() {
        final int end = in.position();
        final int begin = Integer.BYTES + in.getInt(0);
        in.position(begin).limit(end);
        in.compact();
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
