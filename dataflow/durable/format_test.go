package durable

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

var update = flag.Bool("update", false, "write testdata/format.txt")

// here is the origin of everything that these tests encode.
var here = origin{[4]byte{1, 2, 3, 4}, 5}

// formats returns one encoding of each stored kind, with all fields in use.
func formats(t testing.TB) map[string][]byte {
	record := codec.Record{Op: 3, Kind: 0, Nonce: 300, Source: "till 1", Number: 7, Key: []byte("\x61k"), Value: []byte("\x18\x2a")}
	named := record
	named.Name = "input votes"
	read, taken := logdriven.ReadRecord(5, 1000), logdriven.TakenRecord(6, []byte("\x61k"))
	at := place{link: link{1, 2, 3}, inputPosition: inputPosition{taken: 9, digest: 0xfeed, all: 0xbeef}, last: 12, now: 1500000000}
	first := step{begin: true, clock: 1700000000000000000, shape: "location server\n", place: place{now: 1}}
	changed := step{changed: true, shape: "location server\n\tinput in\n\t\tnumber 16\n", fence: 11, place: at}
	later := step{fence: 11, place: at, changes: []byte("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x00"), Emission: logdriven.Emission{Outputs: []byte("outputs"), Refused: []uint64{300, 1}, Parked: []logdriven.Parked{{Nonce: 400, Letter: 2}}, Skipped: []logdriven.Skip{{Index: 3, Operator: "keyedstream.Map at x.go:1", Reason: "no funds", Park: true}}}}
	newer := changed
	newer.newVersion, newer.version = true, "v1.2.0"
	pictured := snapshot{shape: "location server\n", version: "v1.2.0", clock: 1700000000000000000, fence: 12, place: at, runs: []run{{3, 0x123456789, 20, 25, 6, 700, 0xfeed}, {number: 4, first: 26, last: 26, count: 1, bytes: 9}}}
	pictured.refusals = refusals{latest: []refusal{{300, 8, 0}, {1, 9, 4}}, before: 2}
	outputs, state := stateFormat(t)
	return map[string][]byte{
		"record": record.Encode(nil), "record of a named operator": named.Encode(nil), "step of a changed program": changed.encode(here), "step of a new version": newer.encode(here),
		"record of what was read": read.Encode(nil), "record of what was taken": taken.Encode(nil),
		"frame of a record": here.record(nil, 300, []byte("record")), "frame of a batch": here.batch(300, [][]byte{[]byte("record"), []byte("another")}),
		"first step": first.encode(here), "step": later.encode(here), "snapshot": pictured.encode(here),
		"outputs of a quorum": outputs, "state of a quorum": state,
	}
}

// stateFormat returns the outputs and the state after three votes.
func stateFormat(t testing.TB) (outputs, state []byte) {
	flow, graph := newLogDriven(dataflow.Options{}, CBOR(), nil, false)
	quorumProcess(flow)
	graph.Start(t.Context())
	leader := logdriven.NewExecutor(graph, 0)
	if _, err := leader.Begin(0); err != nil {
		t.Fatal(err)
	}
	var records [][]byte
	for i, vote := range []string{"\x61a\x01", "\x61b\x02", "\x61a\x03", "\x61a\x04"} {
		r := codec.Record{Key: []byte(vote[:2]), Value: []byte(vote[2:]), Source: "s", Number: uint64(i + 1)}
		records = append(records, r.Encode(nil))
	}
	e, err := leader.Step(1, records, nil)
	if err != nil {
		t.Fatal(err)
	}
	state, err = leader.Save(nil)
	if err != nil {
		t.Fatal(err)
	}
	return e.Outputs, state
}

// TestFormat compares the stored formats with those of earlier versions of this package.
// If it fails, existing histories cannot be read: give the format a new version, or
// revert the change. go test -update writes new formats.
func TestFormat(t *testing.T) {
	file := filepath.Join("testdata", "format.txt")
	all := formats(t)
	if *update {
		var b strings.Builder
		b.WriteString("# What is kept, in hexadecimal. See TestFormat.\n")
		for _, name := range []string{"frame of a record", "frame of a batch", "record", "record of a named operator", "record of what was read", "record of what was taken", "first step", "step", "step of a changed program", "step of a new version", "snapshot", "outputs of a quorum", "state of a quorum"} {
			b.WriteString(name + ": " + hex.EncodeToString(all[name]) + "\n")
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(golden)) {
		name, want, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		seen++
		if got := hex.EncodeToString(all[name]); got != want {
			t.Errorf("%s is\n%s, and was\n%s", name, got, want)
		}
	}
	if seen != len(all) {
		t.Errorf("%s has %d formats of %d", file, seen, len(all))
	}
}

// TestFormatVersion checks that formats of another version are refused with an error that
// says what to do.
func TestFormatVersion(t *testing.T) {
	check := func(what string, v int, err error, do string) {
		if err == nil || !strings.Contains(err.Error(), do) {
			t.Errorf("a %s of version %d: %v, want an error that says %q", what, v, err, do)
		}
	}
	for v := range stepVersion + 2 {
		if _, err := decodeStep(here, []byte{byte(v), 0, 0, 0, 0}); v < stepVersion {
			check("step", v, err, "begin a new history")
		} else if v > stepVersion {
			check("step", v, err, "start that one")
		}
	}
	for v := range byte(batchVersion + 2) {
		if err := new(message).add(here, []byte{v, 0, 0, 0, 0}); v > batchVersion {
			check("record", int(v), err, "start that one")
		} else {
			check("record", int(v), err, "durable: a record is")
		}
	}
	for v := range snapshotVersion + 2 {
		if _, err := decodeSnapshot(here, []byte{byte(v), 0, 0, 0, 0, 0, 0}); v < snapshotVersion {
			check("snapshot", v, err, "begin a new history")
		} else if v > snapshotVersion {
			check("snapshot", v, err, "start that one")
		}
	}
}

// sealed puts data into a valid frame, so that it passes the checksum.
func sealed(data []byte, version byte) []byte {
	return here.seal(append(here.begin(nil, version), data...))
}

// FuzzDecodeBatch decodes records that were sent together. What is accepted must be what was encoded.
func FuzzDecodeBatch(f *testing.F) {
	f.Add(here.batch(300, [][]byte{[]byte("record"), []byte("another")})[frameSize:])
	f.Add([]byte("\x00\xff\xff\xff\xff\x0f\x01a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, again message
		if err := m.add(here, sealed(data, batchVersion)); err != nil || len(m.records) < 2 {
			return
		}
		err := again.add(here, here.batch(m.floor, m.records))
		if err != nil || again.floor != m.floor || !slices.EqualFunc(again.records, m.records, bytes.Equal) {
			t.Errorf("%+v comes back as %+v (%v)", m, again, err)
		}
	})
}

func FuzzDecodeStep(f *testing.F) {
	all := formats(f)
	f.Add(all["step"][frameSize:])
	f.Add(all["first step"][frameSize:])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeStep(here, sealed(data, stepVersion))
		if err != nil {
			return
		}
		again, err := decodeStep(here, s.encode(here))
		if s.Outputs, again.Outputs = append([]byte{}, s.Outputs...), append([]byte{}, again.Outputs...); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%+v comes back as %+v (%v)", s, again, err)
		}
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(formats(f)["snapshot"][frameSize:])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeSnapshot(here, sealed(data, snapshotVersion))
		if err != nil {
			return
		}
		again, err := decodeSnapshot(here, s.encode(here))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%+v comes back as %+v (%v)", s, again, err)
		}
	})
}

func FuzzCBOR(f *testing.F) {
	type value struct {
		S string
		B []byte
		M map[string]int64
		F float64
		P *string
		L [][]byte
	}
	f.Add("text\xff", []byte{0xff}, int64(-1), 0.1)
	f.Fuzz(func(t *testing.T, s string, b []byte, n int64, x float64) {
		in := value{s, b, map[string]int64{s: n, string(b): -n}, x, &s, [][]byte{nil, {}, b}}
		data, err := CBOR().Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		var out value
		if err := CBOR().Decode(data, &out); err != nil {
			t.Fatal(err)
		}
		if x == x && !reflect.DeepEqual(in, out) {
			t.Errorf("%#v comes back as %#v", in, out)
		}
	})
}

// earlier is a log that contains what an earlier program stored.
type earlier struct{ journal.Log }

func (l earlier) Restore(ctx context.Context, partition int) (*journal.History, error) {
	h, err := l.Log.Restore(ctx, partition)
	if err != nil {
		return nil, err
	}
	before := func(data []byte) []byte {
		if len(data) == 0 {
			return data
		}
		return append([]byte{data[0] - 1}, data[1:]...)
	}
	if h.Snapshot != nil {
		last, older, err := lastTwo(h.Snapshot)
		if err != nil {
			return nil, err
		}
		h.Snapshot = both(before(last), before(older))
	}
	h.Steps = slices.Clone(h.Steps)
	for i := range h.Steps {
		h.Steps[i].Data = before(h.Steps[i].Data)
	}
	return h, nil
}

// TestHistoryOfEarlierProgram starts with the history of an earlier program, with and
// without a snapshot. The flow ends with an error that says what to do, and the history
// is unchanged.
func TestHistoryOfEarlierProgram(t *testing.T) {
	for _, snapshots := range []bool{false, true} {
		log := journal.NewMemory(journal.MemoryOptions{})
		o := quiet(Options{})
		if snapshots {
			o = tiny
		}
		app := start(t, log, crashFlow, o)
		for i := range 20 {
			if err := app.Ports.claims.Put(t.Context(), fmt.Sprint("c", i), i); err != nil {
				t.Fatal(err)
			}
		}
		for snapshots && app.Metrics().Snapshots == 0 {
			runtime.Gosched() // the snapshot is saved concurrently with the steps
		}
		log.Crash()
		<-app.Done()
		log = log.Reopen()
		if h, err := log.Restore(t.Context(), 0); err != nil || (h.Snapshot != nil) != snapshots || len(h.Steps) == 0 && !snapshots {
			t.Fatalf("a history with snapshots %v: %v, %v", snapshots, h, err)
		}
		o.Log = journal.Opened{Log: earlier{log}}
		app, err := Start(t.Context(), crashFlow, o)
		if err == nil {
			<-app.Done()
			err = app.Err()
		}
		if err == nil || !strings.Contains(err.Error(), "begin a new history") {
			t.Errorf("snapshots %v: %v, want an error that says what to do", snapshots, err)
		}
		app = start(t, log.Reopen(), crashFlow, o)
		await(t, app.Ports.called, "c19", 38)
		stop(t, app)
	}
}

// TestMessageOfFrames decodes a message in which a log has gathered records in frames of both versions, as a batch was stored
// before there was a frame for all of it. The test fails if a record is missing or out of order, or if the floor or the digest is
// that of one frame alone.
func TestMessageOfFrames(t *testing.T) {
	one := func(floor uint64, text string) []byte { return here.record(nil, floor, []byte(text)) }
	decode := func(frames ...[]byte) message {
		t.Helper()
		m, err := here.message(journal.Message{Position: 7, Records: frames})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	all := [][]byte{one(3, "a"), one(9, "b"), here.batch(5, [][]byte{[]byte("c"), []byte("d")}), one(4, "e")}
	m := decode(all...)
	if got := string(bytes.Join(m.records, nil)); got != "abcde" || len(m.records) != 5 {
		t.Errorf("the records are %q", m.records)
	}
	if m.position != 7 || m.floor != 9 {
		t.Errorf("the position is %d and the floor %d", m.position, m.floor)
	}
	digests := map[uint32]int{m.digest: -1}
	for i := range all {
		without := decode(slices.Delete(slices.Clone(all), i, i+1)...).digest
		if j, same := digests[without]; same {
			t.Errorf("without frame %d the digest is that of %d", i, j)
		}
		digests[without] = i
	}
	for what, data := range map[string]string{"more than its records": "\x00\x01\x01a!", "fewer records": "\x00\x02\x01a", "a record that is cut": "\x00\x01\x02a", "no number": "\x00", "no floor": ""} {
		if err := new(message).add(here, sealed([]byte(data), batchVersion)); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("a batch with %s: %v", what, err)
		}
	}
	if _, err := here.message(journal.Message{Records: [][]byte{all[0], nil}}); err == nil || !strings.Contains(err.Error(), "record 2 of message 0: durable: a record is empty") {
		t.Errorf("an empty frame: %v", err)
	}
}
