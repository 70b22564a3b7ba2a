package authorize

import "slices"

// fetched answers the asks that wait for a token, or has their users asked.
func (t step) fetched(h *Holder, j Job, o Outcome) {
	asks := h.Asks
	h.Asks = nil
	if o.Class == Good {
		t.fits(h, o)
	}
	for _, w := range asks {
		ask := &w.Ask
		same := o.Class == Good && ask.Refused != "" && o.Access == ask.Refused
		switch {
		case same && (j.Refused != ask.Refused || ask.Reject && !j.Reject):
			h.Asks = append(h.Asks, w) // the job did not know that this token was refused
		case o.Class == Good && !same && Covers(o.Scopes, ask.Need):
			t.answer(w.Token, Told{Class: Good})
		case o.Class != Good && o.Class != None:
			t.answer(w.Token, Told{Class: o.Class})
		case slices.ContainsFunc(h.All, func(a *Authorization) bool { return a.Phase == Arrived || a.Phase == Confirmed }):
			h.Asks = append(h.Asks, w) // that authorization may have produced a token by then
		case ask.User == nil:
			t.answer(w.Token, Told{Class: None})
		default:
			t.ask(h, w, o.Scopes)
		}
	}
}

// ask answers a call that needs an authorization with the one that the call already waits for, or
// with a new one. Have are the scopes of the current token.
func (t step) ask(h *Holder, w *Waiting, have []string) {
	r := w.Ask.User
	count := 0
	of, last := t.find(func(a *Authorization) bool { return a.Call == r.Call && !a.Gone })
	if last != nil {
		count = last.Count
		same := of == h && last.ID != r.After && last.Print == r.Print && slices.Equal(last.Need, w.Ask.Need)
		switch {
		case same && last.Phase == Ended && last.Class != Lost && last.Class != Good: // the call has not received this outcome
			t.answer(w.Token, Told{Class: last.Class})
			return
		case same && (last.Phase == Open || last.Phase == Confirming && last.Epoch == r.Epoch):
			t.answer(w.Token, Told{Class: Asked, ID: last.ID, Scopes: last.Scopes})
			return
		}
	}
	all, ofUser := t.open(h.Key.User)
	p := t.pause(h.Key)
	switch {
	case p != nil && t.now < p.Until:
		t.answer(w.Token, Told{Class: Paused})
		return
	case count >= maxOfCall, ofUser >= maxOfUser, all >= maxOfRuntime, r.All >= maxOfAll, r.Confirm && p == nil && len(t.Pauses) >= maxPauses:
		t.answer(w.Token, Told{Class: Full})
		return
	}
	if last != nil {
		t.drop(of, last)
	}
	a := &Authorization{Request: *r, Need: w.Ask.Need, Refused: w.Ask.Refused, Phase: Open, Expires: t.now + r.For, Count: count + 1}
	for _, scope := range have {
		if !slices.Contains(a.Scopes, scope) {
			a.Scopes = append(a.Scopes[:len(a.Scopes):len(a.Scopes)], scope)
		}
	}
	h.All = append(h.All, a)
	t.opened(h.Key, a, false)
	t.answer(w.Token, Told{Class: Asked, ID: a.ID, Scopes: a.Scopes})
}

// fits ends the authorizations that a token makes unnecessary: those whose needs it covers.
func (t step) fits(h *Holder, o Outcome) {
	for _, a := range slices.Clone(h.All) {
		if a.Phase == Open && Covers(o.Scopes, a.Need) && (a.Refused == "" || a.Refused != o.Access) {
			t.finish(h, a, Good)
		}
	}
}

// exchanged handles the outcome of exchanging a code.
func (t step) exchanged(h *Holder, j Job, o Outcome) {
	i := slices.IndexFunc(h.All, func(a *Authorization) bool { return a.ID == j.ID })
	if i < 0 {
		return
	}
	a := h.All[i]
	a.Job = 0
	void := a.Void
	if void == "" && a.Gone {
		void = Over
	}
	t.discard(h, a, o.Class == Unconfirmed && void != "")
	switch {
	case o.Class == Unconfirmed && void != "":
		t.finish(h, a, void)
	case o.Class == Unconfirmed:
		t.do.Emit(Out{Settled: &Settled{a.ID, Unconfirmed}})
		t.answer(a.Page, Told{Class: Unconfirmed, ID: a.ID})
		a.Phase, a.Page, a.Epoch = Confirming, "", o.Epoch // a process before this one may have asked the user
	default:
		t.finish(h, a, o.Class)
		if o.Class == Good {
			t.fits(h, o)
		}
	}
}

// kept handles the outcome of storing a confirmed token.
func (t step) kept(h *Holder, j Job, o Outcome) {
	if i := slices.IndexFunc(h.All, func(a *Authorization) bool { return a.ID == j.ID }); i >= 0 {
		h.All[i].Job = 0
		t.finish(h, h.All[i], o.Class)
	}
	if o.Class == Good {
		t.fits(h, o)
	}
}
