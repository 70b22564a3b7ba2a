package inspect

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
)

type changesJSON struct {
	Partition int           `json:"partition"`
	Type      string        `json:"type"`
	Key       string        `json:"key"`
	Changes   []changedJSON `json:"changes"`
	Complete  bool          `json:"complete"` // there are no more up to step to
	Next      uint64        `json:"next,omitempty"`
}

type changedJSON struct {
	Step    uint64    `json:"step"`
	At      time.Time `json:"at"`
	Entries []entry   `json:"entries"`
}

func (v *view) serveChanges(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "partition", "type", "key", "from", "to") || !v.shows(w) {
		return
	}
	var a changesJSON
	err := v.past.replay(r.Context(), replayTime, func(ctx context.Context, h *durable.History) error {
		partition, err := partitionIn(r)
		if err != nil {
			return err
		}
		key, err := v.keyIn(r)
		if err != nil {
			return err
		}
		if key == nil {
			return fmt.Errorf("%w: type and key are missing", errQuery)
		}
		from, err := numberIn(r, "from", 0, largest)
		if err != nil {
			return err
		}
		to, err := numberIn(r, "to", 0, largest)
		if err != nil {
			return err
		}
		a, err = v.changes(ctx, h, partition, key, from, to, mostChanged)
		return err
	})
	if err != nil {
		refusePast(w, err)
		return
	}
	a.Type, a.Key = r.URL.Query().Get("type"), r.URL.Query().Get("key")
	answerJSON(w, http.StatusOK, a)
}

// changes lists the steps that changed what is remembered of a key, as far as time permits.
func (v *view) changes(ctx context.Context, h *durable.History, partition int, key any, from, to uint64, most int) (a changesJSON, err error) {
	a = changesJSON{Partition: partition, Changes: []changedJSON{}, Complete: true}
	for c, err := range h.Changes(ctx, partition, key, from, to) {
		if err != nil && ctx.Err() != nil {
			a.Complete = false
			return a, nil
		}
		if err != nil {
			return a, err
		}
		if len(a.Changes) == most {
			a.Complete, a.Next = false, c.Step
			return a, nil
		}
		a.Changes = append(a.Changes, changedJSON{c.Step, c.At.UTC(), v.entriesOf(c.Entries, partition)})
	}
	return a, nil
}

// serveExport serves what the program's command export writes, or the test that reads it.
func (v *view) serveExport(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "partition", "to", "as") || !v.shows(w) {
		return
	}
	as := r.URL.Query().Get("as")
	if as != "" && as != "go" {
		refuse(w, http.StatusBadRequest, "as is go, for a test in Go, or not there")
		return
	}
	var b bounded
	var name string
	err := v.past.replay(r.Context(), exportTime, func(ctx context.Context, h *durable.History) error {
		partition, err := partitionIn(r)
		if err != nil {
			return err
		}
		to, err := numberIn(r, "to", 0, largest)
		if err != nil {
			return err
		}
		place, err := h.Place(ctx, partition, to)
		if err != nil {
			return err
		}
		name = durable.ExportName(partition, place.Number)
		if as == "go" {
			return h.ExportTest(ctx, &b, partition, place.Number)
		}
		return h.Export(ctx, &b, partition, place.Number)
	})
	if err != nil {
		refusePast(w, err)
		return
	}
	kind, ending := "application/octet-stream", ".mrh"
	if as == "go" {
		kind, ending = "text/plain; charset=utf-8", "_test.go"
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+ending+`"`)
	answer(w, http.StatusOK, kind, b.Bytes())
}
