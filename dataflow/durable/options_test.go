package durable

import (
	"reflect"
	"strings"
	"testing"
	"time"
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
