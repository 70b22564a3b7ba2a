// Package disklog keeps the log of a durable flow in a folder, for one process and without a
// server. A program passes [Dir] in durable.Options.Log; [Log] is the open log.
//
// # Files and keys
//
//	lock      locked while the log is open
//	identity  format, a random identity, when it was made, its name, its number of partitions
//	mark      how far each file of db that is appended to was synced, and a checksum of that
//	unfinished  exists while a history is copied here
//	reserve   room on the disk for writes in progress when the disk becomes full
//	reserve-log  a part of it that the write-ahead log does not share with tables
//	records/  a file for each message of more than 256 KiB, and files that are used again
//	db/       a database of Pebble, with these keys:
//
//	r|partition|position     a message of records, or which file has them
//	f|partition|position     the file again, for those messages
//	s|partition|fence        a step, or where its pieces are
//	t|partition|number|index pieces of steps of more than 256 KiB
//	m|partition|0            the latest snapshot, or where its pieces are
//	n|partition|number|index pieces of snapshots of more than 256 KiB
//	o|partition|number|index pieces of the state
//	q|partition|number       how large each of them is
//	p|partition|0            up to where records were purged
//	c|0|0                    the counter that positions, fences and numbers come from
//	i|0|0                    the identity again
//
// A value that is larger than 32 KiB is stored in parts. Each part has its own CRC-32C, of the key
// and the value. A message contains the position of the previous message of its partition, and a
// step the previous fence, so a reader notices if something between them is missing. A message that
// has a file says how long its records are, and their CRC-32C.
//
// The file of a message is durable before the message is. After its records were purged, other
// records are written over them within 5 seconds, or the file is removed. Up to 16 MiB of files wait
// for that. The new records take at least half of the file; old ones may remain behind them until
// the new ones are purged too.
//
// Records, steps and snapshots of all partitions that arrive during a sync of the disk are gathered
// and share the next sync. Nobody can read them before that sync is done, with one exception: the
// process that commits the steps of a partition reads its records ahead ([Log.ReadAhead]), and they
// share a sync with the step that takes them. The log waits 10 ms for that step, and then syncs
// without it.
//
// # Guarantees
//
// Acknowledged data is on the disk. It survives when the process is killed or the machine loses
// power, as far as the disk keeps what it has synced. The order within a partition is that of the
// positions. Positions and fences never repeat.
//
// When the disk is full, writes in progress are completed with the reserve if that suffices, and
// wait otherwise; the file of a message does not wait, and the append is refused. New writes are
// refused with journal.ErrFull. Reads and purges continue to work. The log accepts writes again soon
// after there is room. An Open that finds no room returns journal.ErrFull after a second.
//
// Any other failed write ends the log. Operations in progress return
// journal.ErrUnknown, and all later ones return an error that names the failure. Close
// the log, and open it again when the disk works.
//
// # Damage
//
// A file that is missing, truncated or changed is noticed when the log is opened, or else when the
// damaged data is read. The error is journal.ErrDamaged, with the folder, and with the partition if
// only that is affected. The end of a file that was being written when the process ended, and that
// was never acknowledged, is cut off and logged. Harmless damage is not an error: an identity or a
// mark that is missing or cannot be read is written again, and purged data is not read.
//
// Not noticed are:
//
//   - the replacement of the whole folder, between two Opens, by an older copy of itself, because records and
//     steps are then equally old. A different log in its place has another identity. A folder that is removed
//     or replaced while it is open is journal.ErrDamaged;
//   - an emptied folder: it is a new log. Only journal.OpenOptions.Existing refuses it;
//   - the loss of the end of the newest file in db together with the mark;
//   - after a loss of power, the later loss of what was synced at the very end. The mark is not synced with
//     each write, so the mark on the disk may be some seconds old. Pebble itself then notices damage before
//     the last 32 KiB.
//
// File systems that reserve no room for zeros, such as those that compress, make the reserve
// useless. Writes in progress then wait while the disk is full.
package disklog
