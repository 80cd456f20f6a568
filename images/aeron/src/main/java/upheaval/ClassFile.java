package upheaval;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Puts methods in the place of others in a class file (Java Virtual Machine Specification, 4.4).
 *
 * <p>Only the pool of constants changes: a reference to a method gets another class and name of the same descriptor, which
 * are added at the end of the pool. Code refers to the pool by index and stays as it is. That holds for static methods, of
 * which the class is no operand.
 */
public final class ClassFile {
    private static final int POOL = 8;
    private static final int UTF8 = 1;
    private static final int LONG = 5;
    private static final int DOUBLE = 6;
    private static final int CLASS = 7;
    private static final int METHOD = 10;
    private static final int NAME_AND_TYPE = 12;
    private static final int METHOD_HANDLE = 15;

    private final ByteBuffer content;
    private final int[] offsets;
    private final int end;
    private final ByteArrayOutputStream added = new ByteArrayOutputStream();
    private int count;

    private ClassFile(final byte[] content) {
        this.content = ByteBuffer.wrap(content);
        count = this.content.getShort(POOL) & 0xFFFF;
        offsets = new int[count];
        int at = POOL + 2;
        for (int index = 1; index < count; index++) {
            offsets[index] = at;
            final int tag = content[at];
            at += 1 + length(tag, at);
            // They take two places.
            index += tag == LONG || tag == DOUBLE ? 1 : 0;
        }
        end = at;
    }

    private int length(final int tag, final int at) {
        return switch (tag) {
            case UTF8 -> 2 + (content.getShort(at + 1) & 0xFFFF);
            case LONG, DOUBLE -> 8;
            case CLASS, 8, 16, 19, 20 -> 2;
            case METHOD_HANDLE -> 3;
            default -> 4;
        };
    }

    /** With static methods of {@code owner} for those that {@code names} has as {@code class.name:descriptor}. */
    public static byte[] replaced(final byte[] content, final Class<?> owner, final Map<String, String> names) {
        final ClassFile file = new ClassFile(content.clone());
        try {
            file.replace(owner.getName().replace('.', '/'), names);
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
        return file.bytes();
    }

    private void replace(final String owner, final Map<String, String> names) throws IOException {
        final DataOutputStream out = new DataOutputStream(added);
        int ownerClass = 0;
        for (final int at : offsets) {
            if (at == 0 || content.get(at) != METHOD) {
                continue;
            }
            final int method = offsets[content.getShort(at + 3) & 0xFFFF];
            final int descriptor = content.getShort(method + 3) & 0xFFFF;
            final int ofClass = offsets[content.getShort(at + 1) & 0xFFFF];
            final String called = text(content.getShort(ofClass + 1) & 0xFFFF) + "."
                + text(content.getShort(method + 1) & 0xFFFF) + ":" + text(descriptor);
            final String name = names.get(called);
            if (name == null) {
                continue;
            }
            if (ownerClass == 0) {
                final int ownerName = addText(out, owner);
                out.writeByte(CLASS);
                out.writeShort(ownerName);
                ownerClass = count++;
            }
            final int newName = addText(out, name);
            out.writeByte(NAME_AND_TYPE);
            out.writeShort(newName);
            out.writeShort(descriptor);
            content.putShort(at + 1, (short)ownerClass).putShort(at + 3, (short)count++);
        }
    }

    private int addText(final DataOutputStream out, final String text) throws IOException {
        out.writeByte(UTF8);
        out.writeUTF(text);
        return count++;
    }

    private String text(final int index) {
        final int at = offsets[index];
        return new String(content.array(), at + 3, content.getShort(at + 1) & 0xFFFF, StandardCharsets.UTF_8);
    }

    private byte[] bytes() {
        final byte[] more = added.toByteArray();
        final ByteBuffer whole = ByteBuffer.allocate(content.capacity() + more.length);
        whole.put(content.array(), 0, end).put(more).put(content.array(), end, content.capacity() - end);
        whole.putShort(POOL, (short)count);
        return whole.array();
    }
}
