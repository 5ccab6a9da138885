"""The papers that methods and measures come from: authors, title, year, and where each was published."""

from __future__ import annotations

from typing import Literal

from mixlens.papers.paper import Paper

ACL = "Annual Meeting of the Association for Computational Linguistics"
EMNLP = "Conference on Empirical Methods in Natural Language Processing"
ICML = "International Conference on Machine Learning"
NEURIPS = "Advances in Neural Information Processing Systems"


def _by(names: str, title: str, year: int, place: str, kind: Literal["article", "arxiv"] | None = None) -> Paper:
    return Paper(tuple(name.strip() for name in names.split(",")), title, year, place, kind or "inproceedings")


PAPERS: dict[str, Paper] = {  # as `cite` of a method or a measure names it, in front of where in it
    "Abnar & Zuidema 2020": _by(
        "Samira Abnar, Willem Zuidema",
        "Quantifying Attention Flow in Transformers",
        2020,
        f"Proceedings of the 58th {ACL}",
    ),
    "Achtibat 2024": _by(
        "Reduan Achtibat, Sayed Mohammad Vakilzadeh Hatefi, Maximilian Dreyer, Aakriti Jain, Thomas Wiegand, "
        "Sebastian Lapuschkin, Wojciech Samek",
        "AttnLRP: Attention-Aware Layer-Wise Relevance Propagation for Transformers",
        2024,
        f"Proceedings of the 41st {ICML}",
    ),
    "Ali 2022": _by(
        "Ameen Ali, Thomas Schnake, Oliver Eberle, Grégoire Montavon, Klaus-Robert Müller, Lior Wolf",
        "XAI for Transformers: Better Explanations through Conservative Propagation",
        2022,
        f"Proceedings of the 39th {ICML}",
    ),
    "Barkan 2021": _by(
        "Oren Barkan, Edan Hauon, Avi Caciularu, Ori Katz, Itzik Malkiel, Omri Armstrong, Noam Koenigstein",
        "Grad-SAM: Explaining Transformers via Gradient Self-Attention Maps",
        2021,
        "Proceedings of the 30th ACM International Conference on Information & Knowledge Management",
    ),
    "Brunner 2020": _by(
        "Gino Brunner, Yang Liu, Damián Pascual, Oliver Richter, Massimiliano Ciaramita, Roger Wattenhofer",
        "On Identifiability in Transformers",
        2020,
        "International Conference on Learning Representations",
    ),
    "Chefer 2021": _by(
        "Hila Chefer, Shir Gur, Lior Wolf",
        "Transformer Interpretability Beyond Attention Visualization",
        2021,
        "Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition",
    ),
    "Cohen-Wang 2024": _by(
        "Benjamin Cohen-Wang, Harshay Shah, Kristian Georgiev, Aleksander Madry",
        "ContextCite: Attributing Model Generation to Context",
        2024,
        NEURIPS,
    ),
    "DePass 2025": _by(
        "Xiangyu Hong, Che Jiang, Kai Tian, Biqing Qi, Youbang Sun, Ning Ding, Bowen Zhou",
        "DePass: Unified Feature Attributing by Simple Decomposed Forward Pass",
        2025,
        NEURIPS,
    ),
    "DeYoung 2020": _by(
        "Jay DeYoung, Sarthak Jain, Nazneen Fatema Rajani, Eric Lehman, Caiming Xiong, Richard Socher, "
        "Byron C. Wallace",
        "ERASER: A Benchmark to Evaluate Rationalized NLP Models",
        2020,
        f"Proceedings of the 58th {ACL}",
    ),
    "Edin 2025": _by(
        "Joakim Edin, Róbert Csordás, Tuukka Ruotsalo, Zhengxuan Wu, Maria Maistro, Jing Huang, Lars Maaløe",
        "GIM: Improved Interpretability for Large Language Models",
        2025,
        "2505.17630",
        "arxiv",
    ),
    "Ferrando & Voita 2024": _by(
        "Javier Ferrando, Elena Voita",
        "Information Flow Routes: Automatically Interpreting Language Models at Scale",
        2024,
        f"Proceedings of the 2024 {EMNLP}",
    ),
    "Ferrando 2022": _by(
        "Javier Ferrando, Gerard I. Gállego, Marta R. Costa-jussà",
        "Measuring the Mixing of Contextual Information in the Transformer",
        2022,
        f"Proceedings of the 2022 {EMNLP}",
    ),
    "Ferrando 2023": _by(
        "Javier Ferrando, Gerard I. Gállego, Ioannis Tsiamas, Marta R. Costa-jussà",
        "Explaining How Transformers Use Context to Build Predictions",
        2023,
        f"Proceedings of the 61st {ACL}",
    ),
    "Kendall 1945": _by("M. G. Kendall", "The Treatment of Ties in Ranking Problems", 1945, "Biometrika", "article"),
    "Khattab & Zaharia 2020": _by(
        "Omar Khattab, Matei Zaharia",
        "ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over BERT",
        2020,
        "Proceedings of the 43rd International ACM SIGIR Conference on Research and Development in Information "
        "Retrieval",
    ),
    "Kobayashi 2020": _by(
        "Goro Kobayashi, Tatsuki Kuribayashi, Sho Yokoi, Kentaro Inui",
        "Attention is Not Only a Weight: Analyzing Transformers with Vector Norms",
        2020,
        f"Proceedings of the 2020 {EMNLP}",
    ),
    "Kobayashi 2021": _by(
        "Goro Kobayashi, Tatsuki Kuribayashi, Sho Yokoi, Kentaro Inui",
        "Incorporating Residual and Normalization Layers into Analysis of Masked Language Models",
        2021,
        f"Proceedings of the 2021 {EMNLP}",
    ),
    "Li 2016": _by(
        "Jiwei Li, Will Monroe, Dan Jurafsky",
        "Understanding Neural Networks through Representation Erasure",
        2016,
        "1612.08220",
        "arxiv",
    ),
    "Mehri 2025": _by(
        "Faridoun Mehri, Mahdieh Soleymani Baghshah, Mohammad Taher Pilehvar",
        "LibraGrad: Balancing Gradient Flow for Universally Better Vision Transformer Attributions",
        2025,
        "Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition",
    ),
    "Modarressi 2022": _by(
        "Ali Modarressi, Mohsen Fayyaz, Yadollah Yaghoobzadeh, Mohammad Taher Pilehvar",
        "GlobEnc: Quantifying Global Token Attribution by Incorporating the Whole Encoder Layer in Transformers",
        2022,
        "Proceedings of the 2022 Conference of the North American Chapter of the Association for Computational "
        "Linguistics: Human Language Technologies",
    ),
    "Moeller 2023": _by(
        "Lucas Möller, Dmitry Nikolaev, Sebastian Padó",
        "An Attribution Method for Siamese Encoders",
        2023,
        f"Proceedings of the 2023 {EMNLP}",
    ),
    "Mohebbi 2023": _by(
        "Hosein Mohebbi, Willem Zuidema, Grzegorz Chrupała, Afra Alishahi",
        "Quantifying Context Mixing in Transformers",
        2023,
        "Proceedings of the 17th Conference of the European Chapter of the Association for Computational Linguistics",
    ),
    "Pan 2026": _by(
        "Wenbo Pan, Zhichao Liu, Xianlong Wang, Haining Yu, Xiaohua Jia",
        "Towards Long-Horizon Interpretability: Efficient and Faithful Multi-Token Attribution for Reasoning LLMs",
        2026,
        ICML,
    ),
    "Pearson 1895": _by(
        "Karl Pearson",
        "Note on Regression and Inheritance in the Case of Two Parents",
        1895,
        "Proceedings of the Royal Society of London",
        "article",
    ),
    "Petsiuk 2018": _by(
        "Vitali Petsiuk, Abir Das, Kate Saenko",
        "RISE: Randomized Input Sampling for Explanation of Black-box Models",
        2018,
        "British Machine Vision Conference",
    ),
    "Qiang 2022": _by(
        "Yao Qiang, Deng Pan, Chengyin Li, Xin Li, Rhongho Jang, Dongxiao Zhu",
        "AttCAT: Explaining Transformers via Attentive Class Activation Tokens",
        2022,
        NEURIPS,
    ),
    "Shrikumar 2016": _by(
        "Avanti Shrikumar, Peyton Greenside, Anna Shcherbina, Anshul Kundaje",
        "Not Just a Black Box: Learning Important Features Through Propagating Activation Differences",
        2016,
        "1605.01713",
        "arxiv",
    ),
    "Shrikumar 2017": _by(
        "Avanti Shrikumar, Peyton Greenside, Anshul Kundaje",
        "Learning Important Features Through Propagating Activation Differences",
        2017,
        f"Proceedings of the 34th {ICML}",
    ),
    "Sundararajan 2017": _by(
        "Mukund Sundararajan, Ankur Taly, Qiqi Yan",
        "Axiomatic Attribution for Deep Networks",
        2017,
        f"Proceedings of the 34th {ICML}",
    ),
    "Vaswani 2017": _by(
        "Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, "
        "Illia Polosukhin",
        "Attention Is All You Need",
        2017,
        NEURIPS,
    ),
    "Voita & Titov 2020": _by(
        "Elena Voita, Ivan Titov",
        "Information-Theoretic Probing with Minimum Description Length",
        2020,
        f"Proceedings of the 2020 {EMNLP}",
    ),
    "Voita 2019": _by(
        "Elena Voita, David Talbot, Fedor Moiseev, Rico Sennrich, Ivan Titov",
        "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be Pruned",
        2019,
        f"Proceedings of the 57th {ACL}",
    ),
    "Voorhees 1999": _by(
        "Ellen M. Voorhees",
        "The TREC-8 Question Answering Track Report",
        1999,
        "Proceedings of the Eighth Text REtrieval Conference (TREC-8)",
    ),
    "Walker 2024": _by(
        "Chase Walker, Dominic Simon, Kenny Chen, Rickard Ewetz",
        "Attribution Quality Metrics with Magnitude Alignment",
        2024,
        "Proceedings of the Thirty-Third International Joint Conference on Artificial Intelligence",
    ),
    "Zeiler & Fergus 2014": _by(
        "Matthew D. Zeiler, Rob Fergus",
        "Visualizing and Understanding Convolutional Networks",
        2014,
        "Computer Vision - ECCV 2014",
    ),
    "Zhao & Aletras 2023": _by(
        "Zhixue Zhao, Nikolaos Aletras",
        "Incorporating Attribution Importance for Improving Faithfulness Metrics",
        2023,
        f"Proceedings of the 61st {ACL}",
    ),
}
