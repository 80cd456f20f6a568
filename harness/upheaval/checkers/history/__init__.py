"""The promises about requests and answers of clients, judged by the log or by a search for an order."""
