"""Mutants of what a session that goes back promises about files: only its own, nothing half, nothing of another overwritten."""

from typing import Final

from tests.mutants.mutant import Mutant

_BACK: Final = "tests/runtime/test_files_back.py"
_NOTES: Final = "tests/core/journal/test_files.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a file that a person has edited is overwritten",
        breaks="what changed since is a conflict, and kept",
        file="sandboxes/versions.py",
        old="        if not force and not is_as_left:\n",
        new="        if False:\n",
        killed_by=f"{_BACK}::test_a_file_that_a_person_has_edited_is_a_conflict_and_untouched[immediate]",
        rows=(146,),
    ),
    Mutant(
        name="a note is not waited for",
        breaks="what tools write is durable in the journal before it is written",
        file="runtime/file_notes.py",
        old="            await self._journal.wait_durable(note.number)\n",
        new="            pass\n",
        killed_by=f"{_BACK}::test_a_store_that_is_away_lets_nothing_be_written",
    ),
    Mutant(
        name="a write that failed is not taken back",
        breaks="what the session left is what it wrote",
        file="runtime/file_notes.py",
        old="        if noted:\n",
        new="        if False:\n",
        killed_by=f"{_BACK}::test_a_store_that_is_away_lets_nothing_be_written",
    ),
    Mutant(
        name="what stands beside its place stays there when the disk is full",
        breaks="nothing is half",
        file="sandboxes/versions.py",
        old="                if not is_beside:\n                    self._discard_one(one)\n",
        new="                pass\n",
        killed_by=f"{_BACK}::test_a_disk_that_is_full_changes_no_file",
    ),
    Mutant(
        name="what stands beside its place is left by one that is not the last",
        breaks="nothing is half",
        file="sandboxes/versions.py",
        old="        except BaseException:\n            self.discard(staged)\n",
        new="        except BaseException:\n",
        killed_by=f"{_BACK}::test_a_disk_that_is_full_changes_no_file",
    ),
    Mutant(
        name="a file with a secret in it is kept",
        breaks="no secret is written",
        file="runtime/file_notes.py",
        old="        kept = {digest: content for digest, content in contents.items() if digest not in secret}\n",
        new="        kept = dict(contents)\n",
        killed_by=f"{_BACK}::test_a_secret_in_a_file_is_stored_nowhere",
    ),
    Mutant(
        name="a path is followed through a link that came into its way",
        breaks="restoring touches only the paths that it knows",
        file="sandboxes/versions.py",
        old="            is_straight = self._where(existing, names[:depth]) == names[:depth]\n",
        new="            is_straight = True\n",
        killed_by=f"{_BACK}::test_links_and_paths_that_lead_elsewhere_are_not_written_through",
    ),
    Mutant(
        name="what stood there is taken from the last write",
        breaks="a file becomes what it was at the number",
        file="core/journal/files.py",
        old="            then=first.before,\n",
        new="            then=last.before,\n",
        killed_by=f"{_NOTES}::test_what_is_wanted_is_what_the_first_write_found",
    ),
    Mutant(
        name="an announced write counts as made when its process has ended",
        breaks="what the journal cannot know is not a conflict",
        file="core/journal/files.py",
        old="            self._unsure |= paths\n",
        new="            pass\n",
        killed_by=f"{_NOTES}::test_where_the_process_ended_in_a_call_either_may_be_there",
    ),
    Mutant(
        name="the copy of a fork that does not come about stays",
        breaks="a fork that fails leaves nothing",
        file="runtime/branching_door.py",
        old="                await copied.remove()  # noqa: ASYNC102 - shielded inside\n",
        new="                pass\n",
        killed_by=f"{_BACK}::test_a_fork_that_does_not_come_about_leaves_no_copy[threaded]",
    ),
)
