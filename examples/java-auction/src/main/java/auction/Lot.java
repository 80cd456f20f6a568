package auction;

/** What is known of one lot. */
final class Lot {
    private int bidder;
    private long price;
    private int bids;

    Lot() {
    }

    Lot(final int bidder, final long price, final int bids) {
        this.bidder = bidder;
        this.price = price;
        this.bids = bids;
    }

    /** Whether that bid leads now. The same bid once more still does. */
    boolean bid(final int newBidder, final long newPrice) {
        bids++;
        if (newPrice > price) {
            bidder = newBidder;
            price = newPrice;
        }
        return newBidder == bidder && newPrice == price;
    }

    int bidder() {
        return bidder;
    }

    long price() {
        return price;
    }

    int bids() {
        return bids;
    }
}
