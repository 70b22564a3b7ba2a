package agentinspect

import (
	"net/http"
	"time"
)

// A status is the state of a runtime, in JSON.
type status struct {
	At      time.Time    `json:"at"`
	Counts  counts       `json:"counts"`
	Prompts int          `json:"prompts"`
	Memory  filled       `json:"memory"`
	Bodies  filled       `json:"bodies"`
	Servers []toolServer `json:"servers"`
}

// counts are the counts of package host, in JSON.
type counts struct {
	Calls        uint64 `json:"calls"`
	Attempts     uint64 `json:"attempts"`
	Results      uint64 `json:"results"`
	Failures     uint64 `json:"failures"`
	Duplicates   uint64 `json:"duplicates"`
	Late         uint64 `json:"late"`
	Repeated     uint64 `json:"repeated"`
	Malformed    uint64 `json:"malformed"`
	Forged       uint64 `json:"forged"`
	Busy         uint64 `json:"put_off"`
	Views        uint64 `json:"views"`
	Events       uint64 `json:"events"`
	Unsubscribed uint64 `json:"unsubscribed"`
	LeftOut      uint64 `json:"left_out"`
	Forwarded    uint64 `json:"forwarded"`
}

// A filled is the used part of a bound, in JSON.
type filled struct {
	Bytes int64 `json:"bytes"`
	Bound int64 `json:"bound"` // 0 is none
}

// A toolServer describes a tool server of the runtime, in JSON.
type toolServer struct {
	URL      string    `json:"url"`
	Name     string    `json:"name,omitempty"` // from its manifest
	State    string    `json:"state"`          // ok, not asked, down, or no manifest
	Failure  string    `json:"failure,omitempty"`
	Failed   time.Time `json:"failed,omitzero"`
	Note     string    `json:"note,omitempty"`
	Command  bool      `json:"command"` // the runtime runs it
	InFlight int       `json:"in_flight"`
	Slots    int       `json:"slots"`
	Counts   counts    `json:"counts"`
	Tools    []tool    `json:"tools"`
}

type tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

func (v *view) statusOf() status {
	st := v.rt.Stats()
	s := status{
		At: time.Now().UTC(), Counts: counts(st.Counts), Prompts: st.Prompts, Memory: filled(st.Memory), Bodies: filled(st.Bodies), Servers: []toolServer{},
	}
	for _, t := range v.rt.ToolServers() {
		shown := toolServer{
			URL: t.URL, Name: t.Name, State: "ok", Command: t.Command, InFlight: t.InFlight, Slots: t.Slots, Counts: counts(t.Counts), Tools: []tool{},
		}
		switch {
		case t.Down != nil:
			shown.State, shown.Failure = "down", t.Down.Error()
		case t.Failure != nil:
			shown.State, shown.Failure, shown.Failed = "no manifest", t.Failure.Error(), t.Failed.UTC()
		case t.Name == "":
			shown.State = "not asked"
		}
		if v.options.Note != nil {
			shown.Note = v.options.Note(t.URL)
		}
		for _, of := range t.Tools {
			shown.Tools = append(shown.Tools, tool{of.Name, cut(of.Description)})
		}
		s.Servers = append(s.Servers, shown)
	}
	return s
}

func (v *view) status(q request) error {
	q.page.JSON(q.w, http.StatusOK, v.statusOf())
	return nil
}

// overview shows the state of the runtime.
func (v *view) overview(q request) error {
	return q.show("agents", "overview", struct {
		status
		Values bool
	}{v.statusOf(), q.page.Values()})
}
