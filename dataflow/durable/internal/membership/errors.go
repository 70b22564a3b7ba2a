package membership

import "errors"

// Why a member cannot join, or is none any more.
var (
	// ErrOptions says that an option is missing or out of range. [Join] returns it.
	ErrOptions = errors.New("membership: wrong option")

	// ErrBucket says that the bucket of leases is there and is not what the options ask
	// for: another number of partitions or of replicas, or no time to live. Those of
	// one application must agree, or two of them own one partition. [Join] returns it.
	ErrBucket = errors.New("membership: the bucket does not fit")

	// ErrLeft says that the member has left. [Member.Next] returns it after [Member.Leave].
	ErrLeft = errors.New("membership: left")

	// ErrSuperseded says that another member has joined later with the same ID, such as
	// the next process of the same service. [Member.Next] returns it; join again with another
	// ID or end.
	ErrSuperseded = errors.New("membership: another member joined with this ID")

	// ErrClosed says that the connection was closed for good. [Member.Next] returns it.
	ErrClosed = errors.New("membership: the connection is closed")
)
