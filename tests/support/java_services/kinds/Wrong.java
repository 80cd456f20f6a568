package kinds;

import io.aeron.Image;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.UUID;

/** Accounts with one mistake each. */
public final class Wrong {
    private Wrong() {
    }

    /** Its snapshot has no count of requests. */
    public static final class MissingField extends Accounts {
        @Override
        protected List<String> lines() {
            final List<String> lines = super.lines();
            lines.removeIf(line -> line.startsWith("count"));
            return lines;
        }
    }

    /** Its snapshot has no timers, so one that fires later adds nothing. */
    public static final class ForgottenTimers extends Accounts {
        @Override
        protected List<String> lines() {
            final List<String> lines = super.lines();
            lines.removeIf(line -> line.startsWith("hold"));
            return lines;
        }
    }

    /** It begins with nothing. */
    public static final class NotLoaded extends Accounts {
        @Override
        protected void load(final Image image) {
        }
    }

    /** It takes what is there at the first look. */
    public static final class PolledOnce extends Accounts {
        @Override
        protected void load(final Image image) {
            image.poll(this::onSnapshot, 10);
        }
    }

    /** It loads its snapshot into another field. */
    public static final class LoadedElsewhere extends Accounts {
        @Override
        protected void restore(final String[] words) {
            super.restore(words[0].equals("timers") ? new String[]{"logged", words[1]} : words);
        }
    }

    /** It writes balances in the order of objects without a hash code of their own. */
    public static final class HashOrder extends Accounts {
        private record Line(String[] text) {
            @Override
            public int hashCode() {
                return System.identityHashCode(this);
            }

            @Override
            public boolean equals(final Object other) {
                return this == other;
            }
        }

        @Override
        protected List<String> lines() {
            final Set<Line> shuffled = new HashSet<>();
            balances.forEach((name, balance) -> shuffled.add(new Line(new String[]{"balance " + name + " " + balance})));
            final List<String> lines = new ArrayList<>();
            shuffled.forEach(line -> lines.add(line.text()[0]));
            super.lines().stream().filter(line -> !line.startsWith("balance")).forEach(lines::add);
            return lines;
        }
    }

    /** It adds what the clock says. */
    public static final class ClockInState extends Accounts {
        @Override
        protected void add(final String name, final long amount) {
            super.add(name, amount + System.currentTimeMillis() / 86_400_000);
        }
    }

    /** It answers with the time of day, which is another one at each replay. */
    public static final class ClockInAnswer extends Accounts {
        @Override
        protected String answer(final String name) {
            return super.answer(name) + " " + LocalTime.now();
        }
    }

    /** It answers with a number that no replay can repeat. */
    public static final class RandomAnswer extends Accounts {
        @Override
        protected String answer(final String name) {
            return super.answer(name) + " " + UUID.randomUUID();
        }
    }

    /** It answers in the letters of the machine's locale. */
    public static final class LocaleAnswer extends Accounts {
        @Override
        protected String answer(final String name) {
            return super.answer(name) + " " + "title".toUpperCase(Locale.getDefault());
        }
    }

    /** It counts what it does as the leader. */
    public static final class LeaderState extends Accounts {
        @Override
        protected void add(final String name, final long amount) {
            super.add(name, cluster.role() == Cluster.Role.LEADER ? amount + 1 : amount);
        }
    }

    /** Its leader alone sets timers. */
    public static final class LeaderTimer extends Accounts {
        @Override
        protected void schedule(final long id, final long deadline) {
            if (cluster.role() == Cluster.Role.LEADER) {
                super.schedule(id, deadline);
            }
        }
    }

    /** Its leader alone tells the log. */
    public static final class LeaderOffer extends Accounts {
        @Override
        protected void tellLog(final String text) {
            if (cluster.role() == Cluster.Role.LEADER) {
                super.tellLog(text);
            }
        }
    }

    /** It adds whenever it has nothing to do. */
    public static final class BackgroundState extends Accounts {
        @Override
        public int doBackgroundWork(final long nowNs) {
            logged++;
            return 1;
        }
    }

    /** Its timers are a millisecond later than the request asks for, on members that know their number. */
    public static final class MemberInTimer extends Accounts {
        @Override
        protected void schedule(final long id, final long deadline) {
            super.schedule(id, deadline + cluster.memberId());
        }
    }

    /** It remembers what it answered, and forgets that with its snapshot. */
    public static final class ForgottenAnswer extends Accounts {
        private String last = "";

        @Override
        protected void respond(final ClientSession session, final String text) {
            super.respond(session, text + " after " + last);
            last = text;
        }
    }

    /** It answers with the balance from before the change. */
    public static final class AnswersEarly extends Accounts {
        private Runnable change = () -> {
        };

        @Override
        protected void add(final String name, final long amount) {
            change = () -> super.add(name, amount);
        }

        @Override
        protected void respond(final ClientSession session, final String text) {
            super.respond(session, text);
            apply();
        }

        @Override
        public void onTimerEvent(final long correlationId, final long timestamp) {
            super.onTimerEvent(correlationId, timestamp);
            apply();
        }

        private void apply() {
            change.run();
            change = () -> {
            };
        }
    }

    /** It has counted a request when it finds that it cannot add. */
    public static final class Raises extends Accounts {
        @Override
        protected void add(final String name, final long amount) {
            if (count % 3 == 0) {
                throw new IllegalStateException("no account " + name);
            }
            super.add(name, amount);
        }
    }
}
