package durable

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A Witness records, outside of the log, how far each partition of a history has come; see [Options].Witness
// and [WitnessDir]. One witness serves one history. Its methods may be called by several goroutines, and by all
// processes that share the flow if they share the witness. They should return soon after their context ends:
// each process makes one call at a time, and a call that takes 5 s counts as failed.
type Witness interface {
	// Load returns the data saved last for a partition, or nil if there is none.
	Load(ctx context.Context, partition int) ([]byte, error)

	// Save replaces the data saved for a partition, as a whole or not at all. Nil removes it.
	Save(ctx context.Context, partition int, data []byte) error
}

const (
	// witnessEach is how often steps are saved in the witness, and witnessWait bounds one call of it.
	witnessEach = time.Second
	witnessWait = 5 * time.Second
	// witnessAgain is how often a failing witness is logged.
	witnessAgain = time.Minute
)

// A sighting is a step that a witness knows of. It is stored as one line of text:
//
//	millrace-witness 1 HISTORY PARTITION STEP LINK TIME CRC
type sighting struct {
	history   journal.Identity
	partition int
	fence     uint64 // of the step; zero if there is none
	link      link   // to the step
	at        int64  // its time, in nanoseconds of Unix time
}

func (s *sighting) encode() []byte {
	text := fmt.Sprintf("millrace-witness 1 %v %d %d %x %d", s.history, s.partition, s.fence, s.link[:], s.at)
	return fmt.Appendf(nil, "%s %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

// decodeSighting accepts exactly what encode writes.
func decodeSighting(data []byte) (s sighting, err error) {
	fields := strings.Split(string(data), " ")
	if len(fields) != 8 {
		return s, errors.New("it is not one line of eight words")
	}
	history, _ := hex.DecodeString(fields[2])
	to, _ := hex.DecodeString(fields[5])
	if len(history) == len(s.history) && len(to) == len(s.link) {
		s.history, s.link = journal.Identity(history), link(to)
	}
	s.partition, _ = strconv.Atoi(fields[3])
	s.fence, _ = strconv.ParseUint(fields[4], 10, 64)
	s.at, _ = strconv.ParseInt(fields[6], 10, 64)
	if !bytes.Equal(s.encode(), data) {
		return sighting{}, errors.New("its checksum does not fit, or another version has made it")
	}
	return s, nil
}

func (s *sighting) String() string {
	return fmt.Sprintf("step %d of %s", s.fence, time.Unix(0, s.at).UTC().Format(time.DateTime))
}

// errWitnessSilent says that a witness has not answered in time.
var errWitnessSilent = fmt.Errorf("durable: the witness has not answered for %v", witnessWait)

// A patientWitness makes one call of a witness at a time, and abandons a call that takes too long.
type patientWitness struct {
	Witness
	free chan struct{} // of capacity 1: full during a call, which may never return
}

func newPatientWitness(w Witness) Witness {
	if _, is := w.(*patientWitness); is || w == nil {
		return w
	}
	return &patientWitness{w, make(chan struct{}, 1)}
}

func (w *patientWitness) Load(ctx context.Context, partition int) ([]byte, error) {
	return w.call(ctx, func(ctx context.Context) ([]byte, error) { return w.Witness.Load(ctx, partition) })
}

func (w *patientWitness) Save(ctx context.Context, partition int, data []byte) error {
	_, err := w.call(ctx, func(ctx context.Context) ([]byte, error) { return nil, w.Witness.Save(ctx, partition, data) })
	return err
}

func (w *patientWitness) call(ctx context.Context, do func(context.Context) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, witnessWait, errWitnessSilent)
	defer cancel()
	select {
	case w.free <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		data, err := do(ctx)
		<-w.free
		answers <- answer{data, err}
	}()
	select {
	case a := <-answers:
		return a.data, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A witnessError says that the content of a witness cannot be used, so that nothing is known of the history.
type witnessError struct{ text string }

func (e *witnessError) Error() string { return e.text }

// loadSighting returns what a witness knows of a partition of a history, or nil if it knows nothing. It returns
// a [*witnessError] if the witness has something else.
func loadSighting(ctx context.Context, w Witness, history journal.Identity, partition int) (*sighting, error) {
	data, err := w.Load(ctx, partition)
	if err != nil || data == nil {
		return nil, err
	}
	s, err := decodeSighting(data)
	switch {
	case err != nil:
		return nil, &witnessError{fmt.Sprintf("durable: what the witness has of partition %d is damaged: %v; put it back, or if the history is known to be right, remove it from the witness", partition, err)}
	case s.history != history:
		return nil, &witnessError{fmt.Sprintf("durable: the witness is that of another history: it knows %v, and this one is %v; put the right one back, or give this one a witness of its own, or, if it takes the place of the other, remove from the witness what it has", s.history, history)}
	case s.partition != partition:
		return nil, &witnessError{fmt.Sprintf("durable: what the witness has of partition %d is that of partition %d; put it back", partition, s.partition)}
	}
	return &s, nil
}

// misfit returns in words why a history is neither the one that was seen nor a later state of it. It returns ""
// if it is, or if that cannot be known.
func (s *sighting) misfit(ctx context.Context, log journal.Log, of origin, h *journal.History) string {
	if s == nil || s.fence == 0 {
		return ""
	}
	if s.fence > h.Fence {
		return fmt.Sprintf("the history is an older copy: the witness knows %v, and the last step is %d", s, h.Fence)
	}
	if is, known := linkTo(ctx, log, of, h, s.fence); known && is != s.link {
		return fmt.Sprintf("the history is not the one that the witness knows: its step %d is not %v; it is an older copy that went on", s.fence, s)
	}
	return ""
}

// linkTo returns the link to the step with a fence, if the stored history still shows it. The link is zero if
// the history never had a step with that fence.
func linkTo(ctx context.Context, log journal.Log, of origin, h *journal.History, fence uint64) (_ link, known bool) {
	if fence == h.At && h.Snapshot != nil {
		if s, err := newest(of, h.Snapshot); err == nil && s.fence == fence {
			return s.link, true
		}
	}
	all := h.Steps
	if fence < h.At {
		steps, err := log.Steps(ctx, of.partition, 0)
		if err != nil {
			return link{}, false
		}
		defer steps.Close()
		all = nil
		for at := uint64(0); at <= fence; {
			s, err := steps.Next(ctx)
			if err != nil {
				return link{}, false
			}
			at, all = s.Fence, []journal.Step{s}
		}
	}
	for _, committed := range all {
		if committed.Fence < fence {
			continue
		}
		if committed.Fence == fence {
			return after(committed.Data), true
		}
		s, err := decodeStep(of, committed.Data)
		switch {
		case err != nil || s.fence > fence: // the steps before it are gone
			return link{}, false
		case s.fence == fence:
			return s.link, true
		}
		return link{}, true
	}
	return link{}, false
}
