package natslog_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestLost deletes messages of a log behind its back. An operation that needs them returns an
// error that says where they are missing, and does not wait for them.
func TestLost(t *testing.T) {
	t.Parallel()
	type log struct {
		*natslog.Log
		ctx    context.Context
		in, st natsjs.Stream
		at     []uint64 // of four messages of partition 0
		fences []uint64 // of three steps, each after one more message
	}
	read := func(after int) func(*testing.T, *log) error {
		return func(t *testing.T, l *log) error {
			r, err := l.Read(l.ctx, 0, append([]uint64{0}, l.at...)[after])
			if err != nil {
				return err
			}
			defer r.Close()
			for last := uint64(0); last < l.at[3]; {
				ms, err := r.Next(l.ctx, 1<<20)
				if err != nil {
					return err
				}
				last = ms[len(ms)-1].Position
			}
			return nil
		}
	}
	restore := func(t *testing.T, l *log) error {
		_, err := l.Restore(l.ctx, 0)
		return err
	}
	steps := func(t *testing.T, l *log) error {
		r, err := l.Steps(l.ctx, 0, 0)
		if err != nil {
			return err
		}
		defer r.Close()
		for range 3 {
			if _, err := r.Next(l.ctx); err != nil {
				return err
			}
		}
		return nil
	}
	tests := map[string]struct {
		lose func(*testing.T, *log) error
		use  func(*testing.T, *log) error
		want string // empty if there is no error
	}{
		"nothing is lost":           {func(*testing.T, *log) error { return nil }, read(0), ""},
		"a record in the middle":    {func(t *testing.T, l *log) error { return l.in.DeleteMsg(l.ctx, l.at[1]) }, read(0), "IN_millrace"},
		"the first record":          {func(t *testing.T, l *log) error { return l.in.DeleteMsg(l.ctx, l.at[0]) }, read(0), "IN_millrace"},
		"the first one, not read":   {func(t *testing.T, l *log) error { return l.in.DeleteMsg(l.ctx, l.at[0]) }, read(1), ""},
		"purged and not lost":       {func(t *testing.T, l *log) error { return l.Purge(l.ctx, 0, l.at[2], 0) }, read(3), ""},
		"purged behind a reader":    {func(t *testing.T, l *log) error { return l.Purge(l.ctx, 0, l.at[2], 0) }, read(1), "purged"},
		"all steps":                 {func(t *testing.T, l *log) error { return l.st.Purge(l.ctx, natsjs.WithPurgeSubject("millrace.jr.0")) }, restore, "ST_millrace"},
		"the last step":             {func(t *testing.T, l *log) error { return l.st.Purge(l.ctx) }, restore, "ST_millrace"},
		"steps below the last":      {func(t *testing.T, l *log) error { return l.st.Purge(l.ctx, natsjs.WithPurgeSequence(l.fences[2])) }, restore, "purged"},
		"no step is lost":           {func(*testing.T, *log) error { return nil }, restore, ""},
		"no step is lost, followed": {func(*testing.T, *log) error { return nil }, steps, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := &log{Log: open(t, natslog.Settings{Dir: t.TempDir(), OpenOptions: journal.OpenOptions{Partitions: 2}}), ctx: soon(t)}
			js, err := natsjs.New(l.Conn())
			if err != nil {
				t.Fatal(err)
			}
			l.in, err = js.Stream(l.ctx, "IN_millrace")
			if err == nil {
				l.st, err = js.Stream(l.ctx, "ST_millrace")
			}
			if err != nil {
				t.Fatal(err)
			}
			fence := uint64(0)
			for i := range 4 {
				if _, err := l.Append(l.ctx, 1, []byte("of another partition")); err != nil {
					t.Fatal(err)
				}
				at, err := l.Append(l.ctx, 0, []byte("x"))
				if err != nil {
					t.Fatal(err)
				}
				l.at = append(l.at, at)
				if i == 3 {
					break
				}
				if fence, err = l.Commit(l.ctx, 0, fence, []byte("y")); err != nil {
					t.Fatal(err)
				}
				l.fences = append(l.fences, fence)
			}
			if err := test.lose(t, l); err != nil {
				t.Fatal(err)
			}
			err = test.use(t, l)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want == "purged" && !errors.Is(err, journal.ErrPurged):
				t.Errorf("%v, want %v", err, journal.ErrPurged)
			case test.want != "" && test.want != "purged" && (!errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want damage of %s", err, test.want)
			}
		})
	}
}

// TestLostWhileRead replaces a stream while a log reads it and appends to it.
func TestLostWhileRead(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	l := open(t, natslog.Settings{Dir: t.TempDir()})
	js, err := natsjs.New(l.Conn())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Append(ctx, 0, make([]byte, 7<<20)); err != nil { // larger than what a reader prefetches
			t.Fatal(err)
		}
	}
	r, err := l.Read(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if ms, err := r.Next(ctx, 1); err != nil || ms[0].Position != 1 {
		t.Fatalf("%v, %v", ms, err)
	}
	// Replace the whole stream by an empty one, as if an older copy had been restored.
	in, err := js.Stream(ctx, "IN_millrace")
	if err != nil {
		t.Fatal(err)
	}
	config := in.CachedInfo().Config
	if err := js.DeleteStream(ctx, "IN_millrace"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second append fails too
		if at, err := l.Append(ctx, 0, []byte("x")); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("acknowledged at position %d after position 3: %v", at, err)
		}
	}
	for err == nil {
		_, err = r.Next(ctx, 1)
	}
	if !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("the reader says %v", err)
	}
}

// TestMadeAnew removes the streams of an open log and has another log create them again.
func TestMadeAnew(t *testing.T) {
	s := startServers(t, 1, "sync_interval: always")
	opts := natslog.Settings{Options: natslog.Options{URLs: s.urls("app"), Replicas: 1, AssumeDurable: true}}
	l := open(t, opts)
	for range 3 {
		if _, err := l.Append(soon(t), 0, []byte("record")); err != nil {
			t.Fatal(err)
		}
	}
	js, err := natsjs.New(l.Conn())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IN_millrace", "ST_millrace"} {
		if err := js.DeleteStream(soon(t), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Restore(soon(t), 0); !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("Restore of streams that were removed: %v", err)
	}
	other := open(t, opts)
	if other.Identity() == l.Identity() {
		t.Error("both have the same identity")
	}
	if _, err := l.Restore(soon(t), 0); !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "made anew") {
		t.Errorf("Restore of streams that were made anew: %v", err)
	}
	if _, err := l.Append(soon(t), 0, []byte("record")); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Append to streams that were made anew: %v", err)
	}
	l.Close()
	if again := open(t, opts); again.Identity() != other.Identity() {
		t.Errorf("the identity was %v, and is %v", other.Identity(), again.Identity())
	}
}

// TestRemovedMeanwhile removes the streams of a log that continues to write to them.
func TestRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	s := startServers(t, 1, "sync_interval: always")
	l := open(t, natslog.Settings{Options: natslog.Options{URLs: s.urls("app"), Replicas: 1, AssumeDurable: true}})
	js, err := natsjs.New(l.Conn())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IN_millrace", "ST_millrace"} {
		if err := js.DeleteStream(soon(t), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Append(soon(t), 0, []byte("record")); !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("Append to streams that were removed: %v", err)
	}
	if _, err := l.Commit(soon(t), 0, 0, []byte("step")); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Commit to streams that were removed: %v", err)
	}
}
