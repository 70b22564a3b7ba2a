package jetstream

import "testing"

// AlwaysTogether has writers write batches, however few the elements are.
func AlwaysTogether(t *testing.T) {
	before := fewest
	fewest = 1
	t.Cleanup(func() { fewest = before })
}

// SettledAtOnce has readers believe what a leader says of the end of a stream.
func SettledAtOnce(t *testing.T) {
	before := settled
	settled = 0
	t.Cleanup(func() { settled = before })
}
