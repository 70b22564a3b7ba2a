package jetstream

import "testing"

// AlwaysTogether has writers write batches, however few the elements are.
func AlwaysTogether(t *testing.T) {
	before := fewest
	fewest = 1
	t.Cleanup(func() { fewest = before })
}
