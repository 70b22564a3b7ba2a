package main

import (
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A scene is one call of the demo: what is done, and how it has to end.
type scene struct {
	thread, operation string
	arguments         string
	user              string        // user_id, for calls that need the user
	lifetime          time.Duration // zero for the demo's usual one
	what              string        // what happens, for the table

	login string                     // with whose password the user logs in at the provider
	allow bool                       // whether the user then allows access
	pick  int                        // which choice the user picks
	after func(d *demoRun, s *taken) // what the user does meanwhile

	cause agentproto.Cause
	text  string // what the result's text has to be
}

const demoLifetime = 6 * time.Second

// The session of the demo. What is wrong with tools here happens to real ones.
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
	{thread: "kitchen", operation: "order", arguments: `{"items":["tea","coffee","cake"]}`, what: "asks the user, who picks coffee", pick: 1,
		cause: agentproto.ByResult, text: "coffee"},

	{thread: "office", operation: "whoami", arguments: `{}`, user: "ada", what: "OAuth: the user logs in and allows", login: "ada", allow: true,
		cause: agentproto.ByResult, text: "ada (user-1815)"},
	{thread: "office", operation: "calendar", arguments: `{}`, user: "mallory", what: "OAuth: the user logs in and denies", login: "ada",
		cause: agentproto.ByResult, text: "Error: the user did not authorize the access"},
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

// What has to be dropped in all: the second and third answer of thrice, and the
// answer of overdue.
const (
	wantDuplicates = 2
	wantLate       = 1
)
