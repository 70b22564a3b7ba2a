package durable

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestDefaults checks that unset options get the documented defaults and that set options stay.
func TestDefaults(t *testing.T) {
	type numbers struct {
		Name          string
		Partitions    int
		Lease         time.Duration
		SnapshotBytes int
		SnapshotAge   time.Duration
		StepBytes     int
		MaxLag        Lag
		MaxGap        time.Duration
		LeaveWithin   time.Duration
	}
	of := func(o Options) numbers {
		return numbers{o.Name, o.Partitions, o.Lease, o.SnapshotBytes, o.SnapshotAge, o.StepBytes, o.MaxLag, o.MaxGap, o.LeaveWithin}
	}
	want := numbers{"millrace", 16, 10 * time.Second, 16 << 20, time.Minute, 4 << 20, Lag{Records: 65536, Bytes: 16 << 20}, 7 * 24 * time.Hour, 10 * time.Second}
	if got := of(Options{}.withDefaults()); !reflect.DeepEqual(got, want) {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	set := Options{
		Name: "a", Partitions: 1, Lease: 2, SnapshotBytes: 3, SnapshotAge: 4, StepBytes: 5, MaxLag: Lag{Records: 6, Bytes: 7}, MaxGap: 8, LeaveWithin: 9,
	}
	if got := of(set.withDefaults()); !reflect.DeepEqual(got, of(set)) {
		t.Errorf("what is set becomes %+v", got)
	}
	for given, want := range map[string]string{
		"v1":                           "v1",
		"v\xff1":                       "v1",
		strings.Repeat("a", 257):       strings.Repeat("a", 256),
		strings.Repeat("a", 256):       strings.Repeat("a", 256),
		strings.Repeat("a", 255) + "é": strings.Repeat("a", 255), // no partial character
	} {
		if got := (Options{Version: given}).withDefaults().Version; got != want {
			t.Errorf("the version %q becomes %q", given, got)
		}
	}
	if got := (Options{}).withDefaults(); got.Codec == nil || got.Logger == nil || got.Now == nil {
		t.Errorf("nil stays: %+v", got)
	}
}

// TestNegativeOptions checks that a negative bound is refused by a start, which would otherwise take nothing.
func TestNegativeOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"Partitions": {Partitions: -1}, "Lease": {Lease: -1}, "SnapshotBytes": {SnapshotBytes: -1}, "SnapshotAge": {SnapshotAge: -1}, "KeepFor": {KeepFor: -1},
		"MaxLag.Records": {MaxLag: Lag{Records: -1}}, "MaxLag.Bytes": {MaxLag: Lag{Bytes: -1}}, "StepBytes": {StepBytes: -1},
		"MaxBytes": {MaxBytes: -1}, "MaxGap": {MaxGap: -1}, "LeaveWithin": {LeaveWithin: -1},
	} {
		o.Log = journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}
		if _, err := Start(t.Context(), func(*dataflow.Flow) int { return 0 }, o); err == nil || !strings.Contains(err.Error(), "Options."+name+" is -1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
