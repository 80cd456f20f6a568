package upheaval;

import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.ProtectionDomain;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The Java agent in a member that a program of the user's starts: {@code -javaagent:JAR=FILE}, with the member's file of
 * properties.
 *
 * <p>It sets Aeron's system properties, and has every class call {@link Launches} where it would launch a component of
 * Aeron. There the contexts of the program get what makes its member visible, and keep the rest.
 */
public final class Agent {
    private static final byte[] LAUNCH = "\1\0\6launch".getBytes(StandardCharsets.ISO_8859_1);

    private static final List<String> OPENED = List.of("jdk.internal.misc", "sun.nio.ch", "java.util.zip");
    /** Of the member, once {@link #premain} has read it. */
    static MemberConfig config;

    private Agent() {
    }

    /** Before the program's {@code main}. */
    public static void premain(final String file, final Instrumentation instrumentation) {
        try {
            config = new MemberConfig(Path.of(file));
            AeronProperties.of(config).forEach(System::setProperty);
        } catch (final IllegalArgumentException | IOException error) {
            Member.refuse("member: " + error.getMessage());
        }
        openJava(instrumentation);
        instrumentation.addTransformer(new Transformer());
    }

    /** What Agrona looks into, which a program opens by options of its own otherwise. */
    private static void openJava(final Instrumentation instrumentation) {
        final Set<Module> ours = Set.of(ClassLoader.getSystemClassLoader().getUnnamedModule());
        final Map<String, Set<Module>> opens = OPENED.stream().collect(Collectors.toMap(name -> name, name -> ours));
        instrumentation.redefineModule(Object.class.getModule(), Set.of(), Map.of(), opens, Set.of(), Map.of());
    }

    private static final class Transformer implements ClassFileTransformer {
        @Override
        public byte[] transform(
            final ClassLoader loader,
            final String name,
            final Class<?> redefined,
            final ProtectionDomain domain,
            final byte[] content) {
            if (loader == null || name == null || name.startsWith("upheaval/") || !hasLaunch(content)) {
                return null;
            }
            final byte[] replaced = ClassFile.replaced(content, Launches.class, Launches.METHODS);
            return Arrays.equals(replaced, content) ? null : replaced;
        }

        /** Whether the pool of constants has that name: most classes are not looked at any further. */
        private static boolean hasLaunch(final byte[] content) {
            for (int at = 0; at <= content.length - LAUNCH.length; at++) {
                if (content[at] == 1 && Arrays.equals(content, at, at + LAUNCH.length, LAUNCH, 0, LAUNCH.length)) {
                    return true;
                }
            }
            return false;
        }
    }
}
