// Package script runs readable conversations with a flow, and checks that what must
// not matter does not.
//
// A script is a txtar file. Its first lines say why it exists, and its name is a
// summary:
//
//	Two votes for one key, one of them late. The threshold is crossed once.
//	-- flow --
//	tally limit=2
//	-- in --
//	send votes yes
//	tick
//	send votes yes
//	send votes no
//	tick
//	-- out --
//	tick 2
//	  passed yes:2
//
// The flow is an ordinary Go function that the test registers under its name. It
// declares inputs with [Input], [Keyed] and [Entries], and outputs with [Show] and
// similar functions. A line of the conversation is one of
//
//	send INPUT VALUE         to a stream
//	send INPUT KEY VALUE     to a keyed stream
//	put INPUT KEY VALUE      to a keyed singleton
//	close INPUT
//	wait DURATION            let time pass; it costs none
//	tick                     let everything run, and look
//
// The last section is the resulting content of the outputs; -update rewrites it.
// Everything between two ticks is taken in one step, so the section is the same each
// time.
//
// # Identities
//
// Each script is run again in ways that must not matter: one record at a time, in
// steps that end anywhere, through SendBatch, before the start, with the records of
// inputs without order in another order, with each record of inputs that may repeat
// sent twice, and, if the script is small, in all schedules of the simulator. If one
// of these runs shows something else, the section says so:
//
//	but one record at a time
//	  tick 1
//	    batches [1]
//	    batches [2]
//
// Such lines are correct only if a flow shows timing on purpose.
package script
