package kinds;

/** A right service that multiplies each amount by a property of its process. */
public class Scaled extends Accounts {
    @Override
    protected void add(final String name, final long amount) {
        super.add(name, amount * Integer.getInteger("kinds.scale", 2));
    }
}
