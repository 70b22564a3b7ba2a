package journaltest

import (
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// size checks that a log that reports its size counts the input of each partition until it is
// purged.
func size(t *testing.T, log journal.Log) {
	sized, ok := log.(journal.Sized)
	if !ok {
		t.Skip("the log does not say its size: see journal.Sized")
	}
	const bytes = 300_000 // in each partition
	ctx := limited(t)
	is := func() journal.Size {
		t.Helper()
		s, err := sized.Size(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s.Free > s.Disk {
			t.Errorf("there is more room than the disk has: %+v", s)
		}
		return s
	}
	before := is()
	if before.Kept != 0 || before.MaxBytes != 0 {
		t.Errorf("of a new log without a bound: %+v", before)
	}
	var last uint64
	for p := range 2 {
		position, err := log.Append(ctx, p, make([]byte, bytes))
		if err != nil {
			t.Fatal(err)
		}
		if last, err = log.Append(ctx, p, []byte("the last one")); err != nil || last <= position {
			t.Fatal(last, position, err)
		}
	}
	after := is()
	if got := after.Kept; got < 2*bytes || got > 3*bytes || after.Bytes < before.Bytes {
		t.Errorf("two partitions with %d bytes each: %+v, and was %+v", bytes, after, before)
	}
	if err := log.Purge(ctx, 1, last, 0); err != nil {
		t.Fatal(err)
	}
	if purged := is(); purged.Kept >= after.Kept || purged.Kept < bytes {
		t.Errorf("one of them was purged: %+v, and was %+v", purged, after)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := sized.Size(ctx); err == nil {
		t.Errorf("of a closed log: %+v", s)
	}
}
