package main

import "net/http"

// A statsBody counts what has happened since this process began, in the format
// of the API.
type statsBody struct {
	Calls      uint64 `json:"calls"`
	Results    uint64 `json:"results"`    // calls that a tool resolved
	Failures   uint64 `json:"failures"`   // calls that were resolved otherwise
	Events     uint64 `json:"events"`     // of subscriptions
	Duplicates uint64 `json:"duplicates"` // dropped: a second result
	Late       uint64 `json:"late"`       // dropped: arrived after another resolution
	PutOff     uint64 `json:"put_off"`    // callbacks answered 503
	LeftOut    uint64 `json:"left_out"`   // events beyond the limit
	Forwarded  uint64 `json:"forwarded"`  // callbacks forwarded to the new runtime of their session
}

func (a api) stats(w http.ResponseWriter, _ *http.Request) {
	s := a.rt.Stats()
	answer(w, http.StatusOK, statsBody{
		Calls: s.Calls, Results: s.Results, Failures: s.Failures, Events: s.Events,
		Duplicates: s.Duplicates, Late: s.Late, PutOff: s.Busy, LeftOut: s.LeftOut, Forwarded: s.Forwarded,
	})
}
