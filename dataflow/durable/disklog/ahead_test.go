package disklog_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestAheadOneSync checks that one sync makes a record and the step that takes it durable, and that
// each record is read before that.
func TestAheadOneSync(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	l := openAs(t, disklog.On(newDisk(1<<30), t.TempDir(), small), journal.OpenOptions{Partitions: 1})
	r, err := l.ReadAhead(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	durable, err := l.Read(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer durable.Close()
	fence := uint64(0)
	const rounds = 20
	before, late := l.Metrics().Syncs, 0
	for i := range rounds {
		type appended struct {
			at  uint64
			err error
		}
		done := make(chan appended, 1)
		go func() {
			at, err := l.Append(ctx, 0, fmt.Append(nil, i))
			done <- appended{at, err}
		}()
		ms, err := r.Next(ctx, 1<<20)
		if err != nil || string(ms[0].Records[0]) != fmt.Sprint(i) {
			t.Fatalf("read %v ahead, %v", ms, err)
		}
		select {
		case <-done: // the step came too late, on a busy machine
			done <- appended{ms[0].Position, nil}
			late++
		default:
		}
		if fence, err = l.Commit(ctx, 0, fence, []byte("step")); err != nil {
			t.Fatal(err)
		}
		if a := <-done; a.err != nil || a.at != ms[0].Position {
			t.Fatalf("appended at %d, %v; read at %d", a.at, a.err, ms[0].Position)
		}
		if ms, err = durable.Next(ctx, 1<<20); err != nil || len(ms) != 1 {
			t.Fatalf("read %v, %v", ms, err)
		}
	}
	if syncs := l.Metrics().Syncs - before; syncs < rounds || syncs > uint64(rounds+2*late+rounds/4) {
		t.Errorf("%d syncs for %d records with a step each, of which %d were late", syncs, rounds, late)
	}
}

// TestAheadInFiles reads ahead what has files, between records that have none. The test fails if the reader gets other records from
// memory than those that were appended, or if the files have others.
func TestAheadInFiles(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	l := open(t, t.TempDir(), journal.OpenOptions{Partitions: 1})
	r, err := l.ReadAhead(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := [][][]byte{large("a"), {[]byte("small")}, large("b"), large("c"), {[]byte("last")}}
	for i, records := range all {
		if _, err := l.Append(ctx, 0, records...); err != nil {
			t.Fatal(err)
		}
		ms, err := r.Next(ctx, 1<<20)
		if err != nil || len(ms) != 1 || !slices.EqualFunc(ms[0].Records, records, bytes.Equal) {
			t.Errorf("append %d has other records: %d messages, %v", i, len(ms), err)
		}
	}
	durable, err := readAll(ctx, l, 0, 0)
	if err != nil || len(durable) != len(all) {
		t.Fatalf("%d messages are durable, want %d: %v", len(durable), len(all), err)
	}
	for i, m := range durable {
		if !slices.EqualFunc(m.Records, all[i], bytes.Equal) {
			t.Errorf("message %d has other records in its file", i)
		}
	}
}

// TestAheadWithoutStep checks that an Append returns although no step takes the record, and that
// later appends do not wait at all.
func TestAheadWithoutStep(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	l := openAs(t, disklog.On(newDisk(1<<30), t.TempDir(), small), journal.OpenOptions{Partitions: 2})
	r, err := l.ReadAhead(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 { // 5 s, if each waits
		if _, err := l.Append(ctx, i%2, []byte("record")); err != nil {
			t.Fatal(err)
		}
	}
	ms, err := r.Next(ctx, 1<<20)
	if err != nil || len(ms) == 0 {
		t.Fatalf("read %v, %v", ms, err)
	}
	r.Close()
	r.Close()
	if n := l.ReadersAhead(0); n != 0 {
		t.Errorf("%d readers read ahead when all are closed", n)
	}
}

// TestAheadMixed has appends and steps of two partitions share batches, and checks what the log
// contains when it is opened again.
func TestAheadMixed(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	disk, dir := newDisk(1<<30), t.TempDir()
	l := openAs(t, disklog.On(disk, dir, small), journal.OpenOptions{Partitions: 2})
	const senders, each = 8, 25
	done := make(chan error, 2*senders+2)
	for p := range 2 {
		for range senders {
			go func() {
				var err error
				for i := 0; i < each && err == nil; i++ {
					_, err = l.Append(ctx, p, make([]byte, 100))
				}
				done <- err
			}()
		}
		go func() { done <- takeAll(l, t, p, senders*each) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openAs(t, disklog.On(disk, dir, small), journal.OpenOptions{Partitions: 2, Existing: true})
	for p := range 2 {
		h, err := l.Restore(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		records := 0
		for _, s := range h.Steps {
			var n int
			fmt.Sscan(string(s.Data), &n)
			records += n
		}
		if records != senders*each {
			t.Errorf("steps of partition %d have taken %d records, want %d", p, records, senders*each)
		}
	}
}

// takeAll commits a step for each batch of records, until it has taken all of them.
func takeAll(l *disklog.Log, t *testing.T, p, all int) error {
	ctx := soon(t)
	r, err := l.ReadAhead(ctx, p, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	for fence, seen := uint64(0), 0; seen < all; {
		ms, err := r.Next(ctx, 1<<20)
		if err != nil {
			return err
		}
		n := 0
		for _, m := range ms {
			n += len(m.Records)
		}
		if fence, err = l.Commit(ctx, p, fence, fmt.Append(nil, n)); err != nil {
			return err
		}
		seen += n
	}
	return nil
}
