package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// A dialog is the sequence of rounds in which a server asks for input before it carries a call out. A newer server answers a call
// with requests for input and a state, and gets the call again with the answers and that state. An older one answers with an
// error that names addresses, and gets the call again later. Either way the call was not carried out yet. Rounds are stored with
// the call, as refusedStep steps, and the next process continues from the last one.
type dialog struct {
	m       *member
	user    *attempt             // asks the questions
	last    *mcp.CallToolResult  // the last requests for input; nil for none
	answers mcp.InputResponseMap // to last; nil if there are none yet
	next    int                  // the number of the next step
	pause   time.Duration        // before the call is sent again after a visit of an address
	busy    int                  // how often in a row the server has only asked for time
	over    map[string]bool      // addresses that the user did not visit in time, or not at all
}

// Limits of a dialog. After the user was sent to an address, a call is sent again after 2 s, and then after 4, 8, 16, 30, 30 … s.
const (
	maxRounds  = 100
	maxRound   = 32 << 10 // bytes
	maxBusy    = 20
	firstPause = 2 * time.Second
	lastPause  = 30 * time.Second
)

// errAsksTooMuch says that a call has too many rounds, or too large ones.
var errAsksTooMuch = errors.New("it asks for too much before it carries the call out")

// dialog returns the dialog of a call as earlier runs have stored it. It repeats their questions in the same order, by which
// [toolserver.Choose] finds the answers.
func (m *member) dialog(ctx context.Context) (*dialog, error) {
	inv := toolserver.Invocation(ctx)
	d := &dialog{m: m, user: &attempt{ctx: ctx, server: m.server.Name, thread: inv.GroupID, log: m.log}, over: map[string]bool{}}
	for d.next = 1; ; d.next++ {
		kept, was, err := toolserver.Stepped[json.RawMessage](ctx, refusedStep+strconv.Itoa(d.next))
		if err != nil || !was {
			return d, err
		}
		if string(kept) == "true" {
			continue // refused without requests
		}
		if d.last != nil {
			if _, err := d.respond(ctx, false); err != nil {
				return nil, err
			}
		}
		d.last = new(mcp.CallToolResult)
		if err := json.Unmarshal(kept, d.last); err != nil {
			return nil, fmt.Errorf("a round of the call cannot be read: %w", err)
		}
	}
}

// ready obtains the user's answers to the last requests, unless there are answers already.
func (d *dialog) ready(ctx context.Context) (err error) {
	if d.last == nil || d.answers != nil {
		return nil
	}
	if len(d.last.InputRequests) == 0 { // it only asks for time
		if d.busy++; d.busy > maxBusy {
			return fmt.Errorf("%s is busy; the call was not carried out", d.m.server.Name)
		}
		d.answers = mcp.InputResponseMap{}
		return wait(ctx, d.later(), nil)
	}
	d.busy = 0
	d.answers, err = d.respond(ctx, true)
	return err
}

// fill puts the answers into a call.
func (d *dialog) fill(p *mcp.CallToolParams) {
	if d.last != nil {
		p.InputResponses, p.RequestState = d.answers, d.last.RequestState
	}
}

// respond asks the user for all input of the last round. If now is false, the round is an earlier one, and the user is not sent
// to its addresses.
func (d *dialog) respond(ctx context.Context, now bool) (mcp.InputResponseMap, error) {
	answers := mcp.InputResponseMap{}
	forms := map[string]*mcp.ElicitParams{}
	for key, r := range d.last.InputRequests {
		p, ok := r.(*mcp.ElicitParams)
		if !ok {
			return nil, fmt.Errorf("%s asks for something that it was not offered; the call was not carried out", d.m.server.Name)
		}
		if !isVisit(p) {
			forms[key] = p
		}
	}
	filled, err := d.user.askAll(ctx, forms)
	if err != nil {
		return nil, err
	}
	for key, res := range filled {
		answers[key] = res
	}
	for _, key := range slices.Sorted(maps.Keys(d.last.InputRequests)) {
		if forms[key] != nil || !now {
			continue
		}
		res, err := d.visit(ctx, d.last.InputRequests[key].(*mcp.ElicitParams).URL, nil)
		if err != nil {
			return nil, err
		}
		answers[key] = res
	}
	return answers, nil
}

// visit sends the user to an address and waits until it is time to ask the server whether they have been there, or until done is
// closed.
func (d *dialog) visit(ctx context.Context, address string, done <-chan struct{}) (*mcp.ElicitResult, error) {
	if d.over[address] {
		return nil, d.late()
	}
	err := toolserver.SendTo(ctx, address, func(ctx context.Context) error { return wait(ctx, d.later(), done) })
	if err == nil {
		return consented, nil
	}
	d.over[address] = true
	return d.user.unvisited(err)
}

func (d *dialog) late() error {
	return fmt.Errorf("the user was not at the page of %s in time; the call was not carried out", d.m.server.Name)
}

// later returns how long to wait before the server is asked again.
func (d *dialog) later() time.Duration {
	d.pause = min(max(firstPause, 2*d.pause), lastPause)
	return d.pause
}

// goesOn handles the answer of a server to a call that was sent, and reports whether the call must be sent again because the
// server asked for something.
func (d *dialog) goesOn(ctx context.Context, s *session, sending int, res *mcp.CallToolResult, err error) (bool, error) {
	if err == nil && res.NeedsInput() {
		return true, d.take(ctx, sending, res)
	}
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || wire.Code != mcp.CodeURLElicitationRequired {
		return false, nil
	}
	var asked struct {
		Elicitations []*mcp.ElicitParams `json:"elicitations"`
	}
	if json.Unmarshal(wire.Data, &asked) != nil || len(asked.Elicitations) == 0 || slices.ContainsFunc(asked.Elicitations, func(p *mcp.ElicitParams) bool { return p == nil || !isVisit(p) }) {
		return false, nil
	}
	if err := d.refused(ctx, sending, nil); err != nil {
		return false, err
	}
	for _, p := range asked.Elicitations {
		done, stop := s.completion(p.ElicitationID)
		res, err := d.visit(ctx, p.URL, done)
		stop()
		if err != nil {
			return false, err
		}
		switch res {
		case declined:
			return false, fmt.Errorf("users are not sent to the page that %s names; the call was not carried out", d.m.server.Name)
		case dismissed:
			return false, d.late()
		}
		select {
		case <-done: // continue with the next one
		default:
			return true, nil
		}
	}
	return true, nil
}

// take stores the requests of a server.
func (d *dialog) take(ctx context.Context, sending int, res *mcp.CallToolResult) error {
	waits := len(res.InputRequests) > 0
	for _, r := range res.InputRequests {
		p, ok := r.(*mcp.ElicitParams)
		waits = waits && ok && isVisit(p)
	}
	again := waits && d.last != nil && reflect.DeepEqual(d.last.InputRequests, res.InputRequests)
	if !again && len(res.InputRequests) > 0 {
		d.pause = 0
	}
	same := again && d.last.RequestState == res.RequestState
	d.last, d.answers = res, nil
	if same {
		res = nil
	}
	return d.refused(ctx, sending, res)
}

// refused records that a sending of a call was not carried out, with the requests for input, if any.
func (d *dialog) refused(ctx context.Context, sending int, round *mcp.CallToolResult) error {
	kept := json.RawMessage("true")
	if round != nil {
		data, err := json.Marshal(&mcp.CallToolResult{InputRequests: round.InputRequests, RequestState: round.RequestState})
		if err != nil {
			return err
		}
		kept = data
	}
	if d.next > maxRounds || len(kept) > maxRound {
		return fmt.Errorf("%s cannot be used: %w", d.m.server.Name, errAsksTooMuch)
	}
	if sending == 0 { // it may be sent again in any case
		if round == nil {
			return nil
		}
		sending = d.next
	}
	_, err := toolserver.Step(ctx, refusedStep+strconv.Itoa(sending), func(context.Context) (json.RawMessage, error) { return kept, nil })
	d.next = sending + 1
	return err
}

// wait waits for a duration, or until done is closed or ctx ends.
func wait(ctx context.Context, d time.Duration, done <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
