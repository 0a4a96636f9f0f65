"""Arguments of each MPI call in a DUMPI file, and the parser of one record.

A record is the call's number (16 bits), a mask, a thread number, times, counters and arguments; all big-endian.  The order of the
table below is the calls' numbering.  Letters: ``i`` 32 bits, ``h`` 16, ``b`` 8, ``q`` 64; ``a`` a list of 32-bit numbers,
``H`` of 16-bit, ``B`` of 8-bit, ``A`` of lists; ``c`` a text, ``C`` a list of texts, ``s`` statuses; ``{...}`` only where the first
number is that of the root (the number before the communicator that precedes the brace; of a spawn the second), ``?`` unknown.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

_TABLE: Final = """
Send:ihiih Recv:ihiihs Get_count:shi Bsend:ihiih Ssend:ihiih Rsend:ihiih Buffer_attach:i Buffer_detach:i
Isend:ihiihi Ibsend:ihiihi Issend:ihiihi Irsend:ihiihi Irecv:ihiihi Wait:is Test:iis Request_free:i
Waitany:iais Testany:iaiis Waitall:ias Testall:iais Waitsome:iaias Testsome:iaias Iprobe:iihis Probe:iihs
Cancel:i Test_cancelled:si Send_init:ihiihi Bsend_init:ihiihi Ssend_init:ihiihi Rsend_init:ihiihi Recv_init:ihiihi Start:i
Startall:ia Sendrecv:ihiiihiihs Sendrecv_replace:ihiiiihs Type_contiguous:ihh Type_vector:iiihh Type_hvector:iiihh
Type_indexed:iaahh Type_hindexed:iaahh Type_struct:iaaHh Address:i Type_extent:hi Type_size:hi Type_lb:hi Type_ub:hi
Type_commit:h Type_free:h Get_elements:shi Pack:ihiiih Unpack:iiiihh Pack_size:ihhi Barrier:h Bcast:ihih
Gather:iihih{ih} Gatherv:iiihih{aa}h Scatter:iihih{ih} Scatterv:iihihih{aa} Allgather:ihihh Allgatherv:iihaahh
Alltoall:ihihh Alltoallv:iaahaahh Reduce:ihbih Op_create:ib Op_free:b Allreduce:ihbh Reduce_scatter:iahbh Scan:ihbh
Group_size:hi Group_rank:hi Group_translate_ranks:hiaha Group_compare:hhb Comm_group:hh Group_union:hhh
Group_intersection:hhh Group_difference:hhh Group_incl:hiah Group_excl:hiah Group_range_incl:hiAh Group_range_excl:hiAh
Group_free:h Comm_size:hi Comm_rank:hi Comm_compare:hhb Comm_dup:hh Comm_create:hhh Comm_split:hiih Comm_free:h
Comm_test_inter:hi Comm_remote_size:hi Comm_remote_group:hh Intercomm_create:hihiih Intercomm_merge:hih Keyval_create:h
Keyval_free:h Attr_put:hi Attr_get:hii Attr_delete:hi Topo_test:hb Cart_create:hiaaih Dims_create:iiaa
Graph_create:ihiaaih Graphdims_get:hii Graph_get:iihiiaa Cartdim_get:hi Cart_get:ihiaaa Cart_rank:ihai Cart_coords:ihiia
Graph_neighbors_count:hii Graph_neighbors:ihiia Cart_shift:hiiii Cart_sub:ihah Cart_map:hiaai Graph_map:ihiaai
Get_processor_name:ci Get_version:ii Errhandler_create:h Errhandler_set:hh Errhandler_get:hh Errhandler_free:h
Error_string:ici Error_class:ii Wtime: Wtick: Init:C Finalize: Initialized:i Abort:hi Pcontrol:? Close_port:c
Comm_accept:chihh Comm_connect:chihh Comm_disconnect:h Comm_get_parent:h Comm_join:ih Comm_spawn:iihh{cCiha}
Comm_spawn_multiple:? Lookup_name:chc Open_port:hc Publish_name:chc Unpublish_name:chc Accumulate:ihiiihbh Get:ihiiihh
Put:ihiiihh Win_complete:h Win_create:iihhh Win_fence:bh Win_free:h Win_get_group:hh Win_lock:bibh Win_post:hbh
Win_start:hbh Win_test:hi Win_unlock:ih Win_wait:h Alltoallw:iaaHaaHh Exscan:ihbh Add_error_class:i Add_error_code:ii
Add_error_string:ic Comm_call_errhandler:hi Comm_create_keyval:h Comm_delete_attr:hh Comm_free_keyval:h Comm_get_attr:hhi
Comm_get_name:hci Comm_set_attr:hh Comm_set_name:hc File_call_errhandler:hi Grequest_complete:i Grequest_start:i
Init_thread:Cbb Is_thread_main:i Query_thread:b Status_set_cancelled:si Status_set_elements:shi Type_create_keyval:h
Type_delete_attr:hh Type_dup:hh Type_free_keyval:h Type_get_attr:hhi Type_get_contents:iiihiiiaaH Type_get_envelope:hiiib
Type_get_name:hci Type_set_attr:hh Type_set_name:hc Type_match_size:bih Win_call_errhandler:hi Win_create_keyval:h
Win_delete_attr:hh Win_free_keyval:h Win_get_attr:hhi Win_get_name:hci Win_set_attr:hh Win_set_name:hc Alloc_mem:ih
Comm_create_errhandler:h Comm_get_errhandler:hh Comm_set_errhandler:hh File_create_errhandler:h File_get_errhandler:hh
File_set_errhandler:hh Finalized:i Free_mem: Get_address:i Info_create:h Info_delete:hc Info_dup:hh Info_free:h
Info_get:hcici Info_get_nkeys:hi Info_get_nthkey:hic Info_get_valuelen:hcii Info_set:hcc Pack_external:cihiii
Pack_external_size:cihi Request_get_status:iis Type_create_darray:iiiaBaabhh Type_create_hindexed:iaahh
Type_create_hvector:iiihh Type_create_indexed_block:iiahh Type_create_resized:hiih Type_create_struct:iaaHh
Type_create_subarray:iaaabhh Type_get_extent:hii Type_get_true_extent:hii Unpack_external:ciiiih Win_create_errhandler:h
Win_get_errhandler:hh Win_set_errhandler:hh File_open:hcbhh File_close:h File_delete:ch File_set_size:hq
File_preallocate:hq File_get_size:hq File_get_group:hh File_get_amode:hb File_set_info:hh File_get_info:hh
File_set_view:hqhhch File_get_view:hqhhc File_read_at:hqihs File_read_at_all:hqihs File_write_at:hqihs
File_write_at_all:hqihs File_iread_at:hqihi File_iwrite_at:hqihi File_read:hihs File_read_all:hihs File_write:hihs
File_write_all:hihs File_iread:hihi File_iwrite:hihi File_seek:hqb File_get_position:hq File_get_byte_offset:hqq
File_read_shared:hihs File_write_shared:hihs File_iread_shared:hihi File_iwrite_shared:hihi File_read_ordered:hihs
File_write_ordered:hihs File_seek_shared:hqb File_get_position_shared:hq File_read_at_all_begin:hqih
File_read_at_all_end:hs File_write_at_all_begin:hqih File_write_at_all_end:hs File_read_all_begin:hih File_read_all_end:hs
File_write_all_begin:hih File_write_all_end:hs File_read_ordered_begin:hih File_read_ordered_end:hs
File_write_ordered_begin:hih File_write_ordered_end:hs File_get_type_extent:hhi Register_datarep:c File_set_atomicity:hi
File_get_atomicity:hi File_sync:h IO_Test:iis IO_Wait:is IO_Testall:iais IO_Waitall:ias IO_Testany:iaiis IO_Waitany:iais
IO_Waitsome:iaias IO_Testsome:iaias
"""
CALLS: Final[tuple[tuple[str, str], ...]] = tuple((n, layout) for n, _, layout in (word.partition(":") for word in _TABLE.split()))
"""Name without prefix, and layout, of each call by its number."""
#: Numbers after those of the calls: entering and leaving a function of the program, and the end of the stream.
ENTER, LEAVE, END = (len(CALLS) + n for n in (1, 2, 3))

_STATUSES, _CPU, _WALL, _THREAD, _COUNTERS = 0x03, 0x04, 0x08, 0x40, 0x80
_FIXED: Final = {"i": ">i", "h": ">H", "b": ">B", "q": ">q"}
_LISTS: Final = {"a": ("i", 4), "H": ("H", 2), "B": ("B", 1)}
_TIMES: Final = struct.Struct(">HIHI")
_COUNT: Final = struct.Struct(">i")
_STATUS: Final = struct.Struct(">iiBBi")


class Record(NamedTuple):
    """Parsed record: the call's number, its thread, seconds and nanoseconds of begin and end (empty without), the arguments, and the
    offset of the next record.
    """

    number: int
    thread: int
    times: tuple[int, ...]
    arguments: list[Any]
    next: int


class Unreadable(ValueError):
    """Error for a record that runs over the end of the stream, or whose call is unknown."""


def record(data: Any, offset: int, end: int) -> Record:
    """Parse the record that begins at byte `offset` of `data`; the stream ends at byte `end`.  Raises `Unreadable`."""
    try:
        number = struct.unpack_from(">H", data, offset)[0]
        if number == END:
            return Record(number, 0, (), [], offset + 2)
        mask = data[offset + 2]
        offset += 3
        thread = 0
        if mask & _THREAD:
            thread = struct.unpack_from(">H", data, offset)[0]
            offset += 2
        if mask & _CPU:
            offset += _TIMES.size
        times: tuple[int, ...] = ()
        if mask & _WALL:
            times = _TIMES.unpack_from(data, offset)
            offset += _TIMES.size
        if mask & _COUNTERS:
            offset += 1 + 16 * data[offset]
        if number in (ENTER, LEAVE):
            layout = "q"
        elif number < len(CALLS):
            layout = CALLS[number][1]
        else:
            raise Unreadable(f"call number {number}, which does not exist")
        if layout == "?":
            raise Unreadable(f"MPI_{CALLS[number][0]}, whose record is not known")
        arguments, offset = _arguments(layout, data, offset, end, bool(mask & _STATUSES))
    except (struct.error, IndexError):
        raise Unreadable("a record that runs over the end of the stream") from None
    if offset > end:
        raise Unreadable("a record that runs over the end of the stream")
    return Record(number, thread, times, arguments, offset)


def _arguments(layout: str, data: Any, offset: int, end: int, statuses: bool) -> tuple[list[Any], int]:
    """Parse the arguments of a layout, and return them with the offset behind them."""
    out: list[Any] = []
    skipping = False
    for letter in layout:
        if letter == "{":
            root = out[1] if layout.startswith("iihh{") else out[-2]
            skipping = out[0] != root
        elif letter == "}":
            skipping = False
        elif skipping:
            continue
        elif letter in _FIXED:
            form = _FIXED[letter]
            out.append(struct.unpack_from(form, data, offset)[0])
            offset += struct.calcsize(form)
        elif letter in _LISTS:
            values, offset = _list(letter, data, offset, end)
            out.append(values)
        elif letter == "A":
            rows, offset = _counted(data, offset, end, 4)
            lists = []
            for _ in range(rows):
                values, offset = _list("a", data, offset, end)
                lists.append(values)
            out.append(lists)
        elif letter == "s":
            states, offset = _statuses(data, offset, end) if statuses else ((), offset)
            out.append(states)
        else:
            # Texts are paths, host names and arguments of the program, which must not be kept.
            rows, offset = _counted(data, offset, end, 4) if letter == "C" else (1, offset)
            for _ in range(rows):
                length, offset = _counted(data, offset, end, 1)
                offset += length
            out.append(None)
    return out, offset


def _counted(data: Any, offset: int, end: int, each: int) -> tuple[int, int]:
    """Return a count, 0 for a negative one, and the offset behind it; refuse a count that the rest of the stream cannot hold."""
    count = max(_COUNT.unpack_from(data, offset)[0], 0)
    offset += 4
    if offset + count * each > end:
        raise Unreadable(f"a list of {count} entries, more than the file holds")
    return count, offset


def _list(letter: str, data: Any, offset: int, end: int) -> tuple[tuple[int, ...], int]:
    """Return a list of numbers, and the offset behind it."""
    form, size = _LISTS[letter]
    count, offset = _counted(data, offset, end, size)
    return struct.unpack_from(f">{count}{form}", data, offset), offset + count * size


def _statuses(data: Any, offset: int, end: int) -> tuple[tuple[tuple[int, int, int], ...], int]:
    """Return bytes, source and tag of each status, and the offset behind them."""
    count, offset = _counted(data, offset, end, _STATUS.size)
    statuses = tuple((s[0], s[1], s[4]) for s in _STATUS.iter_unpack(data[offset : offset + count * _STATUS.size]))
    return statuses, offset + count * _STATUS.size
