package supervise_test

const diesWithParent = true
