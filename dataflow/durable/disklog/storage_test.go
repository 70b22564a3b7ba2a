package disklog

import "testing"

// TestLayout checks that purged records that wait for a merge take little beside what a log may keep.
func TestLayout(t *testing.T) {
	for _, maxBytes := range []int64{1, 32 << 20, 1<<30 - 1, 1 << 30, 1 << 40} {
		l := layoutFor(maxBytes)
		if garbage := int64(l.memtable * l.tables); garbage > max(maxBytes/8, 32<<20) {
			t.Errorf("a log of %d bytes has up to %d bytes of purged records", maxBytes, garbage)
		}
	}
	if got := layoutFor(0); got != unbounded {
		t.Errorf("a log without a bound has %v, want %v", got, unbounded)
	}
}
