"""What every store keeps to, each rule once, as a function of one `StoreTrial`; `agentrail.testing.check_store` tries them."""
