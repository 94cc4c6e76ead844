"""Frames as data scientists have them: columns by name, classes by name, and a look at what a hurried hand overlooks."""

import numpy as np
import pandas as pd
import pytest

import commonground as cg
from commonground.errors import InputError, TableWarning

N, NAMES = 300, ["age", "pay", "dose"]
RNG = np.random.default_rng(0)
IDS = np.repeat(np.arange(N), 5)
FRAME = pd.DataFrame(RNG.standard_normal((5 * N, 3)) * [1, 2, 3], columns=NAMES)
Y = FRAME @ [1.0, -0.5, 0.2] + RNG.standard_normal(N)[IDS] + 0.3 * RNG.standard_normal(5 * N)
pytestmark = pytest.mark.filterwarnings(
    "ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning"
)


def test_a_head_finds_columns_by_their_names() -> None:
    """In another order they were taken for one another, without a word."""
    board = cg.PrivateFedRep(1, 4.0, simulation_seed=1, keep_heads=False).fit(FRAME, Y, users=IDS).billboard_
    head = board.personalize(FRAME[:8], Y[:8])
    np.testing.assert_array_equal(head.predict(FRAME[NAMES[::-1]]), head.predict(FRAME))
    np.testing.assert_array_equal(head.predict(FRAME.assign(who=1)), head.predict(FRAME.to_numpy()))
    np.testing.assert_array_equal(head.interval(FRAME[NAMES[::-1]][:4]), head.interval(FRAME[:4]))
    with pytest.raises(InputError, match=r"\['pay'\] are missing"):
        head.predict(FRAME.rename(columns={"pay": "wage"}))
    with pytest.raises(InputError, match="NaN or infinite"):
        head.predict(FRAME.assign(pay=np.nan))


def test_a_head_of_several_classes_does_too() -> None:
    y = np.digitize(Y, [-1.0, 1.0])
    model = cg.PrivateFedRepClassifier(epsilon=4.0, classes=(0, 1, 2), simulation_seed=1).fit(FRAME, y, users=IDS)
    head = model.billboard_.personalize(FRAME[:8], y[:8])
    np.testing.assert_array_equal(head.predict_proba(FRAME[NAMES[::-1]]), head.predict_proba(FRAME))


def test_yes_and_no_are_scored_by_the_words_that_the_schema_knows() -> None:
    """Answers of 0 and 1 were compared with words: none was right, and nothing said why."""
    label = cg.Column("died", "label", kind="yes/no")
    schema = cg.Schema((cg.Column("who", "person"), label, *(cg.Column(name, range=(-9, 9)) for name in NAMES)))
    died = np.where(Y > 0, "yes", "no")
    users = cg.Users.from_table(FRAME.assign(who=IDS, died=died), schema=schema)
    model = cg.PrivateFedRepClassifier(1, 4.0, simulation_seed=1).fit(users)
    assert model.score(FRAME, died, users=IDS) == model.score(FRAME, 1 * (Y > 0), users=IDS) > 0.6
    altmin = cg.PrivateAltMin(1, 4.0, loss="logistic", simulation_seed=1).fit(users)
    assert altmin.score(FRAME, died, users=IDS) > 0.6
    plain = cg.PrivateFedRepClassifier(1, 4.0, simulation_seed=1).fit(FRAME, 1 * (Y > 0), users=IDS)
    with pytest.raises(InputError, match="no label is one of the classes"):
        plain.score(FRAME, died, users=IDS)
    with pytest.raises(InputError, match="give 0 and 1, or y == 'yes'"):
        plain.billboard_.personalize(FRAME[:8], died[:8])


def test_a_frame_is_looked_at_before_it_is_fitted() -> None:
    model = cg.PrivateFedRep(0, 1.0, simulation_seed=1, keep_heads=False)
    with pytest.warns(TableWarning, match="'again': the label again"):
        model.fit(FRAME.assign(again=Y), Y, users=IDS)
    with pytest.warns(TableWarning, match="the same in every row: 'one'"):
        model.fit(FRAME.assign(one=1.0), Y, users=IDS)
    ids = np.where(np.arange(len(IDS)) % 2, IDS.astype(str), np.char.add(IDS.astype(str), " "))
    with pytest.raises(InputError, match="differ from another one by nothing but blanks"):
        model.fit(FRAME, Y, users=ids)
    with pytest.raises(InputError, match="user='who'"):
        model.fit(FRAME.assign(who=IDS), Y, users="who")
    with pytest.raises(InputError, match="ledger= takes a population of a ledger, got str"):
        model.fit(FRAME, Y, users=IDS, ledger="budget.db")


def test_categories_that_miss_most_of_their_cells_are_told(tmp_path: object) -> None:
    ward = cg.Column("ward", kind="category", values=("Surgery", "ICU"))
    schema = cg.Schema((cg.Column("who", "person"), cg.Column("y", "label", range=(-9, 9)), ward))
    frame = pd.DataFrame({"who": IDS, "y": Y, "ward": np.where(IDS % 5, "SURGERY", "ICU")})
    with pytest.warns(TableWarning, match="most cells of 'ward' have a value that the schema does not list"):
        cg.Users.from_table(frame, schema=schema)
    from commonground.data.tables import read_encoded

    with pytest.warns(TableWarning, match="spelled as in training"):
        read_encoded(frame, schema)
