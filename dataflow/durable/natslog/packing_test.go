package natslog

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

func TestPacking(t *testing.T) {
	for _, records := range [][][]byte{{{}}, {{1}, {}, {2, 3}}, {make([]byte, 127), make([]byte, 128), make([]byte, 1<<14), make([]byte, 1<<14-1)}} {
		var message []byte
		size := 1
		for _, r := range records {
			message = pack(message, r)
			size += packed(r)
		}
		if len(message) != size {
			t.Errorf("%d bytes, said to be %d", len(message), size)
		}
		got, err := unpack(message)
		if err != nil || !slices.EqualFunc(got, records, bytes.Equal) {
			t.Errorf("unpacked %d records (%v), packed %d", len(got), err, len(records))
		}
		for cut := range len(message) {
			if got, err := unpack(message[:cut]); err == nil && len(got) >= len(records) {
				t.Errorf("%d of %d bytes gave all records", cut, len(message))
			}
		}
	}
}

func TestParcel(t *testing.T) {
	for _, p := range []parcel{
		{number: 0, data: []byte{}},
		{number: 1 << 60, data: []byte("data")},
		{number: 7, pieces: []uint64{}, size: 0, sum: 1},
		{number: 300, pieces: []uint64{9, 12, 11, 1 << 50, 10}, size: 5 << 20, sum: 0xdeadbeef},
	} {
		got, err := unpackParcel(p.pack())
		if err != nil || got.number != p.number || !bytes.Equal(got.data, p.data) || !slices.Equal(got.pieces, p.pieces) ||
			(got.pieces == nil) != (p.pieces == nil) || got.size != p.size || got.sum != p.sum {
			t.Errorf("%+v came back as %+v (%v)", p, got, err)
		}
	}
}

// FuzzUnpack unpacks arbitrary bytes. They may be refused but must not cause a panic.
// Whatever is accepted must have the same content after it is packed and unpacked again.
func FuzzUnpack(f *testing.F) {
	f.Add(pack(pack(nil, []byte("record")), nil))
	f.Add(parcel{number: 3, data: []byte("step")}.pack())
	f.Add(parcel{number: 3, pieces: []uint64{1, 2}, size: 9}.pack())
	f.Add(packNumber(77))
	f.Fuzz(func(t *testing.T, b []byte) {
		if records, err := unpack(b); err == nil {
			message := []byte{version}
			for _, r := range records {
				message = pack(message, r)
			}
			if again, err := unpack(message); err != nil || !slices.EqualFunc(again, records, bytes.Equal) {
				t.Errorf("%x: %x and %x (%v)", b, records, again, err)
			}
		} else if !errors.Is(err, journal.ErrDamaged) {
			t.Error(err)
		}
		if p, err := unpackParcel(b); err == nil {
			if again, err := unpackParcel(p.pack()); err != nil || again.number != p.number || !slices.Equal(again.pieces, p.pieces) || !bytes.Equal(again.data, p.data) {
				t.Errorf("%x: %+v and %+v (%v)", b, p, again, err)
			}
		} else if !errors.Is(err, journal.ErrDamaged) {
			t.Error(err)
		}
		if n, err := unpackNumber(b); err == nil {
			if again, err := unpackNumber(packNumber(n)); err != nil || again != n {
				t.Errorf("%x: %d and %d (%v)", b, n, again, err)
			}
		}
	})
}

// TestRefusal checks the error that each answer of a server becomes.
func TestRefusal(t *testing.T) {
	for _, test := range []struct {
		api  natsjs.APIError
		want error
	}{
		{natsjs.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence: 5"}, journal.ErrFenced},
		{natsjs.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"}, errNotSent},
		{natsjs.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"}, journal.ErrFull},
		{natsjs.APIError{Code: 503, ErrorCode: 10077, Description: "write msgs/1.blk: no space left on device"}, journal.ErrFull},
		{natsjs.APIError{Code: 503, ErrorCode: 10077, Description: "store is closed"}, errNoAnswer},
		{natsjs.APIError{Code: 500, ErrorCode: 10047, Description: "insufficient storage resources available"}, journal.ErrFull},
		{natsjs.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"}, journal.ErrFull},
		{natsjs.APIError{Code: 400, ErrorCode: 10054, Description: "message size exceeds maximum allowed"}, journal.ErrTooLarge},
		{natsjs.APIError{Code: 503, ErrorCode: 10008, Description: "temporarily unavailable"}, errNotSent},
		{natsjs.APIError{Code: 409, ErrorCode: 10158, Description: "duplicate message id is in process"}, errNoAnswer},
	} {
		if err := refusal(&test.api); !errors.Is(err, test.want) {
			t.Errorf("%d %q became %v, want %v", test.api.ErrorCode, test.api.Description, err, test.want)
		}
	}
}

func TestRecent(t *testing.T) {
	for version, want := range map[string]bool{
		"2.15.0": true, "v2.15.2": true, "2.16.0-RC.1": true, "3.0.0": true,
		"2.14.9": false, "1.99.0": false, "": false, "nonsense": false, "2": false,
	} {
		if err := recent("n", version); (err == nil) != want {
			t.Errorf("version %q: %v", version, err)
		}
	}
}
