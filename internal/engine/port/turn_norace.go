//go:build !race

package port

// counted reports whether sends are counted by key.
const counted = false

type turns[K comparable] struct{}

func (*turns[K]) begin(K) {}
