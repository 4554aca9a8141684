"""The rules of every store, each as a function of one `StoreTrial`. `agentrail.testing.check_store` tests them."""
