package jetstream

import "testing"

// AlwaysTogether makes writers write batches, however few the elements are.
func AlwaysTogether(t *testing.T) {
	before := fewest
	fewest = 1
	t.Cleanup(func() { fewest = before })
}

// SettledAtOnce makes readers believe at once what a leader says about the end of a
// stream.
func SettledAtOnce(t *testing.T) {
	before := settled
	settled = 0
	t.Cleanup(func() { settled = before })
}
