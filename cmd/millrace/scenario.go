package main

import (
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// A scene is one call of the demo: what happens, and how it has to end.
type scene struct {
	thread, operation string
	arguments         string
	lifetime          time.Duration // zero for the default of the demo
	what              string        // what happens, for the table

	pick  int                        // the choice that the user picks
	after func(d *demoRun, s *taken) // what the user does in the meantime

	cause agentproto.Cause
	text  string // the expected text of the result
}

const demoLifetime = 6 * time.Second

// The session of the demo. The faults of these tools occur with real ones too.
var scenes = []scene{
	{thread: "kitchen", operation: "echo", arguments: `{"text":"good morning"}`, what: "answers at once",
		cause: agentproto.ByResult, text: "good morning"},
	{thread: "kitchen", operation: "add", arguments: `{"a":19,"b":23}`, what: "answers at once",
		cause: agentproto.ByResult, text: "42"},
	{thread: "kitchen", operation: "sleep", arguments: `{"ms":700}`, what: "slow: answers after 700 ms",
		cause: agentproto.ByResult, text: "slept for 700 ms"},
	{thread: "kitchen", operation: "fail", arguments: `{"reason":"the oven is cold"}`, what: "the tool fails",
		cause: agentproto.ByResult, text: "Error: the oven is cold"},
	{thread: "kitchen", operation: "thrice", arguments: `{"text":"ding"}`, what: "the tool answers three times",
		cause: agentproto.ByResult, text: "ding"},
	{thread: "kitchen", operation: "delete", arguments: `{"name":"the old bread"}`, what: "asks the user, who picks Yes", pick: firstPick,
		cause: agentproto.ByResult, text: "the old bread deleted"},

	{thread: "office", operation: "teleport", arguments: `{"to":"Brighton"}`, what: "no server has such a tool",
		cause: agentproto.ByRejection, text: `Error: there is no tool "teleport"`},
	{thread: "office", operation: "strict", arguments: `{"count":"three"}`, what: "arguments do not fit the schema",
		cause: agentproto.ByRejection, text: `Error: the arguments of "strict" do not fit its schema`},

	{thread: "travel", operation: "overdue", arguments: `{"ms":1500}`, lifetime: 600 * time.Millisecond, what: "answers 900 ms after its timeout",
		cause: agentproto.ByTimeout, text: "Error: the tool did not answer in time"},
	{thread: "travel", operation: "mute", arguments: `{}`, what: "never acknowledges the call",
		cause: agentproto.ByDispatch, text: "did not acknowledge the call in time"},
	{thread: "travel", operation: "sleep", arguments: `{"ms":60000}`, what: "the user cancels after 400 ms", after: cancelSoon,
		cause: agentproto.ByInterruption, text: "Error: Tool call interrupted by user"},
	{thread: "travel", operation: "sleep", arguments: `{"ms":60001}`, what: "its thread is closed after 2.5 s", after: closeSoon,
		cause: agentproto.ByClosure, text: "Error: the thread was closed"},
}

// How many results must be dropped: the second and third answer of thrice, and the answer
// of overdue.
const (
	wantDuplicates = 2
	wantLate       = 1
)

// The conversation that moves: what the user says and picks, and what the model replies.
const (
	request    = "Tidy up a bit, and keep counting."
	firstPick  = 0 // Yes
	secondPick = 2 // No

	demoTicks = 16
	noted     = "Noted." // the reply to every event that arrives alone
)

var dialogue = append(conversation.Script{
	{Text: "At once.", Calls: []conversation.Call{
		{Name: "add", Arguments: `{"a":19,"b":23}`},
		{Name: "echo", Arguments: `{"text":"sweeping"}`},
		{Name: "delete", Arguments: `{"name":"old notes"}`},
	}},
	{Text: "All clean. I subscribe.", Calls: []conversation.Call{
		{Name: "tick", Arguments: `{"ms":400,"count":16,"inline":true}`},
	}},
	{Text: "I am listening."},
	{Text: "I hear it. A nap will not hurt.", Calls: []conversation.Call{
		{Name: "sleep", Arguments: `{"ms":3500}`},
	}},
	{Text: "Awake, and elsewhere. More to tidy.", Calls: []conversation.Call{
		{Name: "add", Arguments: `{"a":20,"b":22}`},
		{Name: "delete", Arguments: `{"name":"the drafts"}`},
	}},
	{Text: "As you like."},
}, slices.Repeat(conversation.Script{{Text: noted}}, demoTicks)...)

// The expected answers of the tools, in the order of the conversation, with their
// descriptions.
var answers = []struct{ tool, text, what string }{
	{"add", "42", "one of three calls at once"},
	{"echo", "sweeping", "another"},
	{"delete", "old notes deleted", "the third: asks the user, who picks Yes"},
	{"tick", "counting, every 400 ms", "opens a subscription"},
	{"sleep", "slept for 3500 ms", "was pending; posted to A and handed on"},
	{"add", "42", "one of two calls, made here"},
	{"delete", "not deleted", "the other: asks the user here, who picks No"},
}
