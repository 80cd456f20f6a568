package upheaval;

import io.aeron.cluster.ConsensusModule;

/** The version of Aeron on the class path. */
final class AeronVersion {
    private AeronVersion() {
    }

    /**
     * By Aeron's own constant: the manifest of a jar with a whole program in it is that of the program. The compiler would
     * copy the constant of the version that it has, so it is read while the program runs. Null where there is none.
     */
    static String running() {
        try {
            final ClassLoader loader = ConsensusModule.class.getClassLoader();
            return (String)Class.forName("io.aeron.cluster.ConsensusModuleVersion", true, loader).getField("VERSION").get(null);
        } catch (final ReflectiveOperationException otherVersion) {
            return null;
        }
    }
}
